"""Image-text dual encoders: trained with a loss over the whole global batch, judged exactly."""

__version__ = "0.1.0"
