"""Small studies without a dataset, and raters who answer them."""

import io

import PIL.Image

from xmodal.apps.annotate.raters import find_rater, invite
from xmodal.apps.annotate.study_file import (
    StudyFile,
    StudyQuestion,
    StudySettings,
    StudyUnit,
    create,
)

CAPTIONS = [(10 * image + n, f"caption {n} of {image}", image) for image in range(1, 7)
            for n in range(2)]  # fmt: skip


def picture(image_id, size=(64, 48)):
    file = io.BytesIO()
    color = (40 * image_id % 256, 90 * image_id % 256, 160)
    PIL.Image.new("RGB", size, color).save(file, "PNG")
    return image_id, "image/png", file.getvalue()


def make_study(path, units, captions=CAPTIONS, proposals=(), **settings):
    pictures = map(picture, range(1, 7))
    create(path, StudySettings(**settings), units, captions, pictures, proposals)
    return StudyFile(path)


def pairs(kind, *ends, note="any"):
    return [StudyUnit((StudyQuestion(kind, left, right, note=note),)) for left, right in ends]


def sts_units(count=4):
    return pairs("sts", *[(10, 10 * (n + 2)) for n in range(count)])


def raters(study, count):
    return [find_rater(study, token) for token in invite(study, count).values()]


class Clock:
    """A clock that tests advance."""

    def __init__(self):
        self.now = 1e9

    def __call__(self):
        return self.now
