"""SBU Captioned Photo Dataset."""
