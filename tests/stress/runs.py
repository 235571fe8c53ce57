"""A training command in processes that are watched, disturbed and restarted."""

import collections
import contextlib
import json
import os
import pathlib
import random
import resource
import signal
import subprocess
import sys
import time

from tests import short_runs

ROOT = pathlib.Path(__file__).parents[2]
_POLL_SECONDS = 0.0005
_PATIENCE_SECONDS = 600.0


class Run:
    """A run's folder, and the processes that write it one after the other.

    Attributes:
      folder: folder of the run.
      counts: counts of everything that was done to it.
    """

    def __init__(self, root, name, data, *, total_steps, evaluate_every, save_every):
        """Does not start a process.

        Args:
          root: folder below which everything is written.
          name: name of the run.
          data: folder of the prepared dataset.
          total_steps: total steps of the run.
          evaluate_every: steps between evaluations.
          save_every: steps between checkpoints.
        """
        self._root, self._name, self._data = root, name, data
        self.folder = root / name
        self.counts = collections.Counter()
        self._log, self._marker = root / f"{name}.jsonl", root / f"{name}.evaluating"
        self._steps = (total_steps, evaluate_every, save_every)
        self._outputs = []

    @contextlib.contextmanager
    def process(self, *, devices=1, poison=None, largest_file=None):
        """Starts the training command, and kills it on exit if it still runs.

        Args:
          devices: number of virtual devices.
          poison: step whose batch is made NaN.
          largest_file: largest size of a file in bytes, to simulate a full disk.
        """
        self._marker.unlink(missing_ok=True)
        total, evaluate, save = self._steps
        environment = os.environ | short_runs.variables(devices)
        environment |= {
            "STRESS_DATA": str(self._data),
            "STRESS_LOG": str(self._log),
            "STRESS_EVALUATING": str(self._marker),
            "JAX_ENABLE_COMPILATION_CACHE": "true",
            "JAX_COMPILATION_CACHE_DIR": str(self._root / "compiled"),
            "TF_CPP_MIN_LOG_LEVEL": "3",
            "OMP_NUM_THREADS": "1",
        }
        if poison is not None:
            environment["STRESS_POISON"] = str(poison)
        command = [
            sys.executable, "-m", "xmodal.main",
            f"--config={ROOT / 'tests/stress/small_run.py'}",
            f"--workdir={self.folder}",
            f"--config.total_steps={total}",
            f"--config.evals.shapes.every={evaluate}",
            f"--config.checkpoint.every={save}",
        ]  # fmt: skip

        def limit():
            if largest_file is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))

        output = self._root / f"{self._name}.{len(self._outputs)}.txt"
        self._outputs.append(output)
        with output.open("w") as file:
            started = subprocess.Popen(
                command, env=environment, stdout=file, stderr=file, preexec_fn=limit, cwd=ROOT
            )
        self.counts["starts"] += 1
        try:
            yield Process(self, started, output, len(self.entries()))
        finally:
            started.kill()
            started.wait()

    def entries(self):
        """Everything that the processes logged, in order."""
        if not self._log.exists():
            return []
        return [json.loads(line) for line in self._log.read_text().splitlines()]

    def saved_steps(self):
        """Steps of complete checkpoints, ascending."""
        folders = self.folder.glob("checkpoints/*")
        return sorted(int(path.name) for path in folders if path.name.isdigit())

    def is_saving(self):
        """Whether a checkpoint has files but not yet its final name."""
        return any(self.folder.glob("checkpoints/*tmp*/*"))

    def is_evaluating(self):
        """Whether items are being embedded."""
        return self._marker.exists()


class Process:
    """One start of a run."""

    def __init__(self, run, started, output, seen):
        self._run, self._started, self._output, self._seen = run, started, output, seen

    def output(self):
        """The output so far."""
        return self._output.read_text()

    def step(self):
        """The last step whose batch was drawn; -1 for none yet."""
        drawn = [each["step"] for each in self._run.entries()[self._seen :] if "ids" in each]
        return drawn[-1] if drawn else -1

    def wait_for(self, is_moment):
        """Returns whether the condition became true before the process ended."""
        end = time.monotonic() + _PATIENCE_SECONDS
        while not is_moment():
            if self._started.poll() is not None:
                return False
            if time.monotonic() > end:
                raise TimeoutError(f"{self._output}: {self.output()[-2000:]}")
            time.sleep(_POLL_SECONDS)
        return True

    def wait_for_step(self, step):
        """Returns whether the step's batch was drawn before the process ended."""
        return self.wait_for(lambda: time.sleep(0.01) or self.step() >= step)

    def send(self, number):
        """Sends a signal, and returns the exit code."""
        self._started.send_signal(number)
        return self.wait()

    def suspend(self):
        """Suspends the process."""
        self._started.send_signal(signal.SIGSTOP)

    def resume(self):
        """Resumes the process."""
        self._started.send_signal(signal.SIGCONT)

    def wait(self):
        """Returns the exit code."""
        code = self._started.wait(timeout=_PATIENCE_SECONDS)
        self._run.counts[f"exit code {code}"] += 1
        return code


def disturb(run, kind, number, step, randomness, *, damage=None, **options):
    """Starts the run and sends a signal at some moment after a step.

    Args:
      run: a `Run`.
      kind: "anywhere", "start", "save" or "evaluation".
      number: SIGKILL or SIGTERM.
      step: step before which nothing happens, except for "start".
      randomness: a `random.Random`.
      damage: kind of damage to the newest checkpoint before the start, if any; the run then resumes
        from the previous one.
      **options: options of `Run.process`.
    """
    name = signal.Signals(number).name
    damaged = damage_newest(run, damage, randomness) if damage else None
    with run.process(**options) as process:
        if kind == "start":
            time.sleep(randomness.uniform(0.1, 8.0))
            came = True
        else:
            came = process.wait_for_step(step)
            if came and kind == "save":
                came = process.wait_for(run.is_saving)
                time.sleep(randomness.uniform(0.0, 0.02))
            elif came and kind == "evaluation":
                came = process.wait_for(run.is_evaluating)
                time.sleep(randomness.uniform(0.0, 0.1))
            else:
                time.sleep(randomness.uniform(0.0, 0.3))
        if not came:
            raise AssertionError(f"ended before {kind} at step {step}: {process.output()[-3000:]}")
        was_saving, was_evaluating = run.is_saving(), run.is_evaluating()
        code = process.send(number)
        allowed = {-signal.SIGKILL} if number == signal.SIGKILL else {143, -signal.SIGTERM}
        assert code in allowed | {0}, (code, process.output()[-3000:])
        if damaged and kind != "start":
            for said in (f"STEP {damaged[0]} IS DAMAGED", f"from step {damaged[1]}."):
                assert said in process.output(), process.output()[-3000:]
        assert "Traceback" not in process.output() or number == signal.SIGKILL, process.output()
        run.counts[name] += 1
        run.counts[f"{name} in a save"] += was_saving
        run.counts[f"{name} in an evaluation"] += was_evaluating


def damage_newest(run, kind, randomness):
    """Damages the newest checkpoint; returns its step and the previous one, or None if none."""
    saved = run.saved_steps()
    if len(saved) < 2:
        return None
    arrays = [
        path
        for item in ("params", "opt_state", "model_state")
        for path in (run.folder / f"checkpoints/{saved[-1]}/{item}").rglob("*")
        if path.is_file() and path.stat().st_size
    ]
    path = randomness.choice(sorted(arrays))
    if kind == "flip":
        content = bytearray(path.read_bytes())
        content[randomness.randrange(len(content))] ^= 1 << randomness.randrange(8)
        path.write_bytes(content)
    elif kind == "tear":
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    else:
        path.unlink()
    run.counts["checkpoints damaged"] += 1
    return saved[-1], saved[-2]


def make_randomness(seed):
    """A separate generator."""
    return random.Random(seed)
