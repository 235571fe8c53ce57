"""How many scored pairs the sets of SemEval STS have, for `data_prep.validate`."""

from data_prep.checks.figures import Figure, IfThere, Within
from data_prep.semeval_sts.rated_sets import SETS

FIGURES: dict[str, dict[str, Figure]] = {
    "*": {
        f"{each.split}/rows with year={each.year}, dataset={each.name}": (
            IfThere(each.pairs) if each.is_optional else each.pairs
        )
        for each in SETS
    }
    | {"*/lowest score *": Within(0, 5), "*/highest score *": Within(0, 5)}
}
