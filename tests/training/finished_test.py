"""The lines behind a finished run."""

import shlex

from configs import own_data, quickstart
from xmodal.training.finished import where_to_look


def test_commands_can_be_pasted():
    folder = "my runs/it's one"
    commands = [
        shlex.split(line)
        for line in where_to_look(folder, quickstart.get_config()).splitlines()
        if line.startswith("  ")
    ]
    assert commands[0] == ["tensorboard", "--logdir", folder]
    assert commands[1][3:] == [f"--models={folder}", f"--output={folder}/captions.html"]
    config = own_data.get_config()
    config.model.image = None
    lines = where_to_look(folder, config).splitlines()
    assert shlex.split(lines[-1])[2:] == ["xmodal.eval_main", f"--run={folder}"]
