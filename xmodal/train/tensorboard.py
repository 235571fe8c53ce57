"""TensorBoard files of a run: scalars, pictures of queries, similarities, and embeddings.

SCALARS     the tags of metrics.json; train/...: losses, norms, learning rates; train_perf/...:
            speed. TensorBoard sorts these groups by name
CUSTOM      the main metrics on one page
IMAGES      EVALUATOR/DIRECTION/queries/N: a query, the items that it finds, and its positives with
            their ranks and ratings; the queries are the same at every step
HISTOGRAMS  EVALUATOR/DIRECTION/similarity/positive and /other, for the same pairs at every step
TEXT        config, parameters, EVALUATOR/report
PROJECTOR   embeddings of images and captions of the final evaluation
HPARAMS     settings that differ from the defaults, and final metrics, a row per finished run

`config.tensorboard` sets the number of each; zero leaves it out. All processes take part, because
scores come from all devices; process 0 draws and writes.
"""

import dataclasses
import functools
import io
import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import distribution
from typing import Any

import jax
import numpy as np
import PIL.Image
import PIL.ImageDraw
import PIL.ImageFont

from xmodal.core.config import setting
from xmodal.core.files import write_files
from xmodal.core.page import PageItem, PageRow, Picture, Section
from xmodal.core.untrusted.picture_formats import open_picture, to_rgb
from xmodal.evals.evaluators import Evaluator
from xmodal.evals.evaluators.benchmarks import BenchmarksEvaluator
from xmodal.evals.labels.ids import Positions
from xmodal.evals.labels.split import name_image
from xmodal.evals.reports.evaluate import draw_scores
from xmodal.evals.reports.examples import make_groups, pick_fixed
from xmodal.evals.reports.results import Result
from xmodal.evals.scores.embed import Items
from xmodal.evals.scores.sources import Embeddings
from xmodal.train.event_writer import EventWriter

# In pixels. TensorBoard shows pictures about 350 wide, so text is legible only in few columns. A
# run keeps pictures of every evaluation, so they should be small.
_COLUMNS, _CELL, _PICTURE, _FRAME = 3, 140, 120, 3
_LINE, _FONT, _LETTERS, _LINES = 15, 12, 19, 4  # For a text in a cell.
_QUALITY = 60  # For JPEG: text is still sharp.
_INK, _PALE, _PAPER, _MARK = (20, 20, 20), (90, 90, 90), (255, 255, 255), (10, 125, 50)
_COLORS = {"image": (31, 119, 180), "caption": (255, 127, 14)}
"""Frames of items in the projector, which colors no point until a user asks for it."""


def draw_section(section: Section) -> bytes:
    """Returns a picture of a section as a JPEG file; marked items have a green frame."""
    query = [] if section.query is None else [PageRow([section.query])]
    sheet = PIL.Image.new("RGB", (_COLUMNS * _CELL, 10_000), _PAPER)
    draw, top = PIL.ImageDraw.Draw(sheet), _LINE
    draw.text((2 * _FRAME, 0), section.title, _INK, _font())
    for row in [*query, *section.rows]:
        draw.text((2 * _FRAME, top), row.title, _PALE, _font())
        top += _LINE if row.title else 0
        for start in range(0, len(row.items), _COLUMNS):
            items = row.items[start : start + _COLUMNS]
            top += max(_draw_item(sheet, n * _CELL, top, item) for n, item in enumerate(items))
    drawn = sheet.crop((0, 0, sheet.width, top))
    return _encode(drawn, "JPEG", quality=_QUALITY, optimize=True)


def _draw_item(sheet: PIL.Image.Image, left: int, top: int, item: PageItem) -> int:
    """Draws an item in a cell of the sheet, and returns the height of the cell."""
    draw, height = PIL.ImageDraw.Draw(sheet), 2 * _FRAME
    if item.picture is not None:
        drawn = _open(item.picture)
        sheet.paste(drawn, (left + (_CELL - drawn.width) // 2, top + height))
        height += _PICTURE
    for text, color in (item.text, _INK), (" · ".join(item.notes), _PALE), (item.mark, _MARK):
        for line in textwrap.wrap(text, _LETTERS, max_lines=_LINES, placeholder=" …"):
            draw.text((left + 3 * _FRAME, top + height), line, color, _font())
            height += _LINE
    height += 2 * _FRAME
    if item.mark:
        draw.rectangle((left, top, left + _CELL - 1, top + height - 1), None, _MARK, _FRAME)
    return height


def _open(picture: Picture) -> PIL.Image.Image:
    """Returns a picture that fits in a cell, enlarged in blocks of pixels if it is small."""
    opened = open_picture(picture) if isinstance(picture, bytes) else picture
    scale = _PICTURE / max(opened.size)
    width, height = (max(1, round(side * scale)) for side in opened.size)
    method = PIL.Image.Resampling.NEAREST if scale > 1 else PIL.Image.Resampling.LANCZOS
    return to_rgb(opened).resize((width, height), method)


@functools.cache
def _font() -> PIL.ImageFont.FreeTypeFont:
    # Matplotlib includes DejaVu, which has more alphabets than Pillow's own font. It is found
    # without its import, which is slow.
    path = distribution("matplotlib").locate_file("matplotlib/mpl-data/fonts/ttf/DejaVuSans.ttf")
    return PIL.ImageFont.truetype(str(path), _FONT)


_TILE = 40  # Pixels per picture; all pictures are in one file, at most 8192 pixels wide.
_MOST = (8192 // _TILE) ** 2


def write_projector(
    folder: str, embeddings: Mapping[str, tuple[Embeddings, Items]], count: int
) -> None:
    """Writes vectors, captions and pictures for the tab "Projector" of a run's folder.

    Images and captions are shown in one cloud; a caption has the picture of its image. Pictures of
    images have a blue frame, those of captions an orange one. If an item has several vectors, they
    are averaged.

    Args:
      folder: folder of the event files that TensorBoard shows as one run.
      embeddings: evaluator -> embeddings, and their items.
      count: largest number of images, evenly spaced in the split, each with its first caption.
    """
    from google.protobuf import text_format
    from tensorboard.plugins.projector import ProjectorConfig

    config = ProjectorConfig()
    files: dict[str, str | bytes] = {}
    for name, (source, items) in embeddings.items():
        if not source.modalities:  # The model only scores pairs.
            continue
        vectors, rows, tiles = _gather(source, items, min(count, _MOST // 2))
        file = f"projector-{name}"
        entry = config.embeddings.add(
            tensor_name=name,
            tensor_path=f"{file}.vectors.tsv",
            metadata_path=f"{file}.metadata.tsv",
        )
        files[entry.tensor_path] = _table([f"{x:.5g}" for x in row] for row in vectors)
        # A table with several columns begins with their names.
        files[entry.metadata_path] = _table([("text", "kind", "image"), *rows])
        if tiles:
            entry.sprite.image_path = f"{file}.png"
            entry.sprite.single_image_dim.extend([_TILE, _TILE])
            files[entry.sprite.image_path] = _sprite(tiles, [_COLORS[kind] for _, kind, _ in rows])
    files["projector_config.pbtxt"] = text_format.MessageToString(config)
    write_files(folder, files)


def _gather(
    source: Embeddings, items: Items, count: int
) -> tuple[np.ndarray, list[tuple[str, str, str]], list[Any]]:
    """Vectors [P, D], rows of metadata and, if there are any, pictures of P items."""
    total = len(items.image_ids)
    at = np.linspace(0, total, min(count, total), endpoint=False).astype(int)
    image_ids = np.asarray(items.image_ids)[at]
    names = [name_image(items, image) for image in image_ids]
    # The first caption of each of these images.
    owners = Positions("image", image_ids).find(np.asarray(items.caption_image_ids))
    captioned, captions = np.unique(owners, return_index=True)
    captioned, captions = captioned[captioned >= 0], captions[captioned >= 0]
    texts = dict(zip(captioned, (str(items.caption_texts[n]) for n in captions), strict=True))
    caption_ids = np.asarray(items.caption_ids)[captions]
    vectors, rows, pictured = [], [], list[int]()
    for kind, own, ids, wanted, shown in (
        ("image", source.images, source.image_ids, image_ids, np.arange(len(at))),
        ("caption", source.captions, source.caption_ids, caption_ids, captioned),
    ):
        if own is not None and ids is not None:
            vectors.append(own[Positions(kind, ids)(wanted)])
            rows += [(texts.get(n, ""), kind, names[n]) for n in shown]
            pictured += shown.tolist()
    joined = np.concatenate(vectors).astype(np.float32)
    joined = joined.mean(axis=1) if joined.ndim == 3 else joined
    pictures = [*items.pictures(at)] if items.has_pictures else []
    return joined, rows, [pictures[n] for n in pictured if pictures]


def _table(rows: Iterable[Sequence[str]]) -> str:
    return "".join("\t".join(" ".join(cell.split()) for cell in row) + "\n" for row in rows)


def _sprite(pictures: Sequence[bytes], colors: Sequence[tuple[int, int, int]]) -> bytes:
    """Returns all pictures as tiles of one, row by row, with their frames, as a PNG file."""
    columns = math.ceil(math.sqrt(len(pictures)))
    sheet = PIL.Image.new("RGB", (columns * _TILE, -(-len(pictures) // columns) * _TILE), _PAPER)
    for number, (picture, color) in enumerate(zip(pictures, colors, strict=True)):
        row, column = divmod(number, columns)
        tile = to_rgb(open_picture(picture)).resize((_TILE, _TILE))
        PIL.ImageDraw.Draw(tile).rectangle((0, 0, _TILE - 1, _TILE - 1), None, color, _FRAME)
        sheet.paste(tile, (column * _TILE, row * _TILE))
    return _encode(sheet, "PNG")


def _encode(sheet: PIL.Image.Image, format: str, **options: Any) -> bytes:
    file = io.BytesIO()
    sheet.save(file, format, **options)
    return file.getvalue()


@dataclasses.dataclass(frozen=True)
class TensorBoardConfig:
    """`config.tensorboard`: pictures of evaluations and the projector, for TensorBoard.

    Attributes:
      queries: number of queries per direction of every benchmark, drawn with the items they find;
        0 for neither queries nor histograms of similarities.
      projector: number of images in the projector, with a caption each, after the last evaluation.
    """

    queries: int = setting(3, at_least=0)
    projector: int = setting(500, at_least=0)


class Views:
    """Pictures and histograms of the evaluations of one step.

    Every process has to call this, because scores are computed on all devices.
    """

    def __init__(self, writer: EventWriter, config: TensorBoardConfig, step: int) -> None:
        """Opens the views of a step."""
        self.writer, self._config, self._step = writer, config, step
        self._shown: dict[str, tuple[Embeddings, Items]] = {}

    def __call__(
        self,
        name: str,
        evaluator: Evaluator,
        source: Embeddings,
        results: Sequence[Result],
    ) -> None:
        """Writes `NAME/DIRECTION/queries/...` and `.../similarity/...` of benchmarks."""
        if not isinstance(evaluator, BenchmarksEvaluator):
            return
        self._shown[name] = source, evaluator.split
        if not self._config.queries:
            return
        rankings = functools.cache(evaluator.open_rankings(source))
        for tag, drawn in draw_scores(evaluator, source, results).items():
            start = f"{name}/{tag.rpartition('/')[2]}/similarity"
            tags = (f"{start}/positive", f"{start}/other")
            self.writer.write_histograms(self._step, dict(zip(tags, drawn, strict=True)))
        picks = pick_fixed(evaluator.benchmarks, results, self._config.queries)
        groups = make_groups(evaluator, rankings, picks)
        for pick, group in zip(picks, groups, strict=True) if jax.process_index() == 0 else ():
            pictures = {
                f"{name}/{pick.direction}/queries/{number}": draw_section(section)
                for number, section in enumerate(group.sections, 1)
            }
            self.writer.write_pictures(self._step, pictures)

    def write_projector(self, folder: str) -> None:
        """Writes the received embeddings for the projector, see `write_projector`."""
        if self._shown and self._config.projector and jax.process_index() == 0:
            write_projector(folder, self._shown, self._config.projector)
