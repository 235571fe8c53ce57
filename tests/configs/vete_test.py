"""VETE's choices where the paper is silent."""

import numpy as np

from configs import vete
from xmodal import data
from xmodal.data.pixels.images import EVALUATION_CROPS


def test_images_are_rescaled_and_cropped_and_keep_their_proportions():
    image = data.parse(vete.get_config().data).image
    picture = np.zeros((300, 600, 3), np.uint8)
    picture[:, 150:450] = 255
    found = EVALUATION_CROPS[image.eval_recipe](picture, image.size, image.eval_crop)
    assert found.shape == (300, 300, 3)
    assert (found == 255).all()
