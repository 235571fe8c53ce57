"""The output of the training command, in a separate process."""

import re

import pytest

REPORT = "# crisscrossed_shapes, test split"


@pytest.mark.slow
def test_the_console_of_a_run_and_of_a_second_start(tiny_config, start, tmp_path):
    run = tmp_path / "run"
    arguments = [
        f"--config={tiny_config}",
        f"--workdir={run}",
        "--config.total_steps=6",
        "--config.log_every=2",
        "--config.evals.shapes.every=3",
        "--config.checkpoint.every=0",
    ]
    output, _ = start(*arguments, TF_CPP_MIN_LOG_LEVEL="3").communicate()
    head, report, tail = output.partition(REPORT)
    assert report, output
    messages = []
    for line in head.splitlines():
        if not line.startswith("  "):  # the table of parameters
            assert re.match(r"\d\d:\d\d:\d\d \S", line), line
            messages.append(line[9:])

    def count(pattern):
        return sum(bool(re.fullmatch(pattern, message)) for message in messages)

    steps = "step [246]/6  loss [0-9.]+  .* examples/s  [0-9:]+ left  data wait [0-9]+ %"
    assert count(steps) == 3
    assert count(r"step [036]  shapes/mean_recall@10 [0-9.]+  best so far: step [036]") == 3
    # In addition: workdir, vocabulary, cut captions, start, table, compilation (twice).
    assert len(messages) <= 2 * 3 + 7, head
    assert "Traceback" not in output
    end = tail.strip().splitlines()[-7:]
    assert f"Report:  {run}/test/shapes/report.html" in end
    assert end[-2:] == [
        f"  tensorboard --logdir {run}",
        f"  python -m xmodal.eval_main --run={run}",
    ]

    # A finished run prints results from its files: nothing is read, compiled or evaluated.
    again, _ = start(*arguments).communicate()
    assert again.strip() == (report + tail).strip()
