"""The folder of a run: everything needed to resume, evaluate and use it without its dataset.

config.json             the config, with all settings that follow from dataset and initial weights
config-STEP.json        the config until that step, if --allow_changes changed it there
vocab.txt               the tokenizer's file, which config.json names; or merges.txt
records.json            hash and number of the training examples, number of devices
frozen/                 parameters that never change, written once
checkpoints/STEP/       params, model_state, opt_state; files.json, the hashes of all files
damaged-STEP/           a checkpoint that was truncated or changed on disk
evaluated.json          the metrics of all evaluated steps
losses.json             the reported training losses, for the report
loggers.json            ids of the run at Weights & Biases and MLflow
training_items.json     hashes of a user's images that it trains on, and their captions
step_0/test/            results of the weights that it started from
test/                   results of the final evaluation
follow/SPLIT/           results of `eval_main --follow`
step_STEP/SPLIT/        results of `eval_main --step=STEP`
finished.json           hash of the config that the run finished with

One process writes at a time, see `folder_lock`. A run resumes only on the same records and with a
config that trains the same way, see `resolve`; the number of devices may change. It resumes
from the newest checkpoint whose files match their hashes; readers refuse a damaged one. SIGTERM and
Ctrl-C save before they stop.
"""
