"""The bump chart is drawn without overlapping elements."""

import io

import numpy as np
import pytest
from PIL import Image

from xmodal.apps.analysis.agreement.agreement_report import draw_bump_chart
from xmodal.apps.analysis.agreement.rank_correlation import ranks_of_models


def make_ranks(models, metrics):
    rng = np.random.default_rng(models)
    names = [f"model {i}" for i in range(models)]
    table = {name: {f"b{j}/mean/m": rng.random() for j in range(metrics)} for name in names}
    return ranks_of_models(table, [f"b{j}/mean/m" for j in range(metrics)])


@pytest.mark.parametrize(("models", "metrics"), [(2, 2), (7, 10), (25, 3)])
def test_chart_is_a_png_that_grows_with_the_table(models, metrics):
    content = draw_bump_chart(make_ranks(models, metrics), title="Ranks")
    picture = Image.open(io.BytesIO(content))
    assert picture.format == "PNG"
    width, height = picture.size
    # Inches per column and row at 150 dpi, plus margins for names and metrics.
    assert 1.0 * metrics * 150 < width < (1.2 * metrics + 3) * 150
    assert 0.32 * models * 150 < height < (0.33 * models + 2) * 150
    pixels = np.asarray(picture.convert("RGB")).reshape(-1, 3)
    colored = np.ptp(pixels.astype(int), axis=1) > 60
    assert colored.mean() > 0.02  # lines and markers
    assert (pixels == 255).all(axis=1).mean() > 0.5  # on white


def test_models_that_lack_metrics_or_are_tied_are_drawn():
    ranks = {"a": {"o": 1.0, "p": 2.5, "q": 2.5}, "b": {"p": 1.0}, "c": {"q": 1.0, "o": 2.0}}
    assert Image.open(io.BytesIO(draw_bump_chart(ranks))).format == "PNG"
