"""Names of metrics, as people read them."""

import pytest

from xmodal.evals.reports.results import name_tag


@pytest.mark.parametrize(
    ("tag", "name"),
    [
        ("coco/coco5k/i2t/recall@1", "COCO 5K, image to text, R@1"),
        ("cxc/t2i/median_rank", "Crisscrossed Captions, text to image, med r"),
        ("cxc/sts/spearman", "Crisscrossed Captions, STS, Spearman"),
        ("coco5k/mean/recall@20", "COCO 5K, mean of both directions, R@20"),
        ("eccv (mine@2026-11)/i2t/map@r", "ECCV Caption (mine@2026-11), image to text, mAP@R"),
        ("pmrp/mean", "Plausible matches, R-Precision, mean of both directions"),
        ("shapes_own/i2i/recall@5", "shapes own, image to image, R@5"),
        ("imagenet/mean_class_accuracy", "imagenet, mean class accuracy"),
    ],
)
def test_tags_have_names(tag, name):
    assert name_tag(tag) == name
