"""Judges the judges: agreement of metrics, quality of labels, scores from preferences."""

from xmodal.evals.meta.agreement import Agreement, kendall_tau_b, ranks_of_models
from xmodal.evals.meta.bradley_terry import bradley_terry, count_wins
from xmodal.evals.meta.bump_chart import draw_bump_chart
from xmodal.evals.meta.label_quality import LabelQuality, label_quality, load_positive_lists
from xmodal.evals.meta.metric_choice import choose_metrics
from xmodal.evals.meta.metric_report import format_agreement, run, write_meta
from xmodal.evals.meta.model_table import load_models

__all__ = [
    "Agreement",
    "LabelQuality",
    "bradley_terry",
    "choose_metrics",
    "count_wins",
    "draw_bump_chart",
    "format_agreement",
    "kendall_tau_b",
    "label_quality",
    "load_models",
    "load_positive_lists",
    "ranks_of_models",
    "run",
    "write_meta",
]
