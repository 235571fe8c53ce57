"""torchvision's ResNet, for parity tests."""


def make_resnet(torch, units, *, groups=1, group_width=64, like_caffe=False):
    """ResNet or ResNeXt with torchvision's names, and the function from pixels to the last map.

    `like_caffe` has the stride on the first convolution, and pools without padding, rounding up.
    """
    nn = torch.nn

    class Bottleneck(nn.Module):
        def __init__(self, inputs, width, stride):
            super().__init__()
            inner = width * group_width // 64 * groups
            strides = (stride, 1) if like_caffe else (1, stride)
            self.conv1 = nn.Conv2d(inputs, inner, 1, strides[0], bias=False)
            self.bn1 = nn.BatchNorm2d(inner)
            self.conv2 = nn.Conv2d(
                inner, inner, 3, strides[1], padding=1, groups=groups, bias=False
            )
            self.bn2 = nn.BatchNorm2d(inner)
            self.conv3 = nn.Conv2d(inner, 4 * width, 1, bias=False)
            self.bn3 = nn.BatchNorm2d(4 * width)
            self.downsample = None
            if inputs != 4 * width:
                skip = nn.Conv2d(inputs, 4 * width, 1, stride, bias=False)
                self.downsample = nn.Sequential(skip, nn.BatchNorm2d(4 * width))

        def forward(self, x):
            y = self.bn1(self.conv1(x)).relu()
            y = self.bn2(self.conv2(y)).relu()
            y = self.bn3(self.conv3(y))
            return (y + (self.downsample(x) if self.downsample else x)).relu()

    model, inputs = nn.Module(), 64
    model.conv1 = nn.Conv2d(3, 64, 7, 2, padding=3, bias=False)
    model.bn1 = nn.BatchNorm2d(64)
    for stage, count in enumerate(units):
        blocks = []
        for unit in range(count):
            blocks.append(Bottleneck(inputs, 64 * 2**stage, 2 if stage and not unit else 1))
            inputs = 256 * 2**stage
        model.add_module(f"layer{stage + 1}", nn.Sequential(*blocks))
    model.fc = nn.Linear(inputs, 3)

    def forward(x):
        pool = {"padding": 0, "ceil_mode": True} if like_caffe else {"padding": 1}
        x = nn.functional.max_pool2d(model.bn1(model.conv1(x)).relu(), 3, 2, **pool)
        for stage in range(len(units)):
            x = getattr(model, f"layer{stage + 1}")(x)
        return x

    torch.manual_seed(0)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            for tensor in (module.weight, module.bias, module.running_mean, module.running_var):
                tensor.data += 0.1 * torch.randn_like(tensor)
            module.running_var.abs_()
    return model.eval(), forward
