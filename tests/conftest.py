"""Every test sees eight virtual CPU devices, so whatever is sharded is tested sharded."""

import os

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=8"
)
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
