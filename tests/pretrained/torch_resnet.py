"""torchvision's ResNet, for parity tests."""


def make_resnet(torch, units):
    """ResNet with the state dict of torchvision, and the function from pixels to its last map."""
    nn = torch.nn

    class Bottleneck(nn.Module):
        def __init__(self, inputs, width, stride):
            super().__init__()
            self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(width)
            self.conv2 = nn.Conv2d(width, width, 3, stride, padding=1, bias=False)
            self.bn2 = nn.BatchNorm2d(width)
            self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
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
        x = nn.functional.max_pool2d(model.bn1(model.conv1(x)).relu(), 3, 2, padding=1)
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
