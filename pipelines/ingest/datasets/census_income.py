"""Census-Income (KDD): one row per person, three labels; the multi-task set of MMoE's paper.

Source: https://archive.ics.uci.edu/dataset/117/census+income+kdd (UCI, CC BY 4.0).
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.ingest.data_options import DataOptions
from pipelines.ingest.datasets.download import Download, source_folder
from pipelines.ingest.delimited import delimited_file, first_existing
from pipelines.ingest.source import Source

DOWNLOAD = Download(
    "https://archive.ics.uci.edu/static/public/117/census+income+kdd.zip",
    {
        "census-income.data": "3676a81db7d3528f3f8b9f3c699d0f0aa28db45e6e994fa0b8ed38327539ee86",
        "census-income.test": "98402b1ab879573d0a7f38a699a40258080e25e33d3401e7bf9c96d3fa0fab8c",
    },
)
_TEXT, _INT, _FLOAT = pa.string(), pa.int64(), pa.float64()

# UCI's order. Codes are integers that name a category.
COLUMNS: dict[str, pa.DataType] = {
    "age": _INT,
    "class_of_worker": _TEXT,
    "industry_code": _INT,
    "occupation_code": _INT,
    "education": _TEXT,
    "wage_per_hour": _INT,
    "enrolled_in_education_last_week": _TEXT,
    "marital_stat": _TEXT,
    "major_industry": _TEXT,
    "major_occupation": _TEXT,
    "race": _TEXT,
    "hispanic_origin": _TEXT,
    "sex": _TEXT,
    "member_of_labor_union": _TEXT,
    "reason_for_unemployment": _TEXT,
    "employment_stat": _TEXT,
    "capital_gains": _INT,
    "capital_losses": _INT,
    "dividends_from_stocks": _INT,
    "tax_filer_stat": _TEXT,
    "region_of_previous_residence": _TEXT,
    "state_of_previous_residence": _TEXT,
    "household_and_family_stat": _TEXT,
    "household_summary": _TEXT,
    "instance_weight": _FLOAT,
    "migration_code_change_in_msa": _TEXT,
    "migration_code_change_in_region": _TEXT,
    "migration_code_move_within_region": _TEXT,
    "lived_in_this_house_one_year_ago": _TEXT,
    "previous_residence_in_sunbelt": _TEXT,
    "persons_worked_for_employer": _INT,
    "family_members_under_18": _TEXT,
    "country_of_birth_father": _TEXT,
    "country_of_birth_mother": _TEXT,
    "country_of_birth_self": _TEXT,
    "citizenship": _TEXT,
    "own_business_or_self_employed": _INT,
    "veterans_questionnaire": _TEXT,
    "veterans_benefits": _INT,
    "weeks_worked_in_year": _INT,
    "year": _INT,
    "income": _TEXT,
}
# Education of at least some college; the set's own words.
COLLEGE = (
    "Some college but no degree",
    "Associates degree-occup /vocational",
    "Associates degree-academic program",
    "Bachelors degree(BA AB BS)",
    "Masters degree(MA MS MEng MEd MSW MBA)",
    "Prof school degree (MD DDS DVM LLB JD)",
    "Doctorate degree(PhD EdD)",
)


def read(options: DataOptions) -> Source:
    """Reads the provider's train and test files."""
    folder = source_folder(options, DOWNLOAD)
    files = {
        part: first_existing(folder, (f"{name}.gz", name))
        for part, name in (("train", "census-income.data"), ("test", "census-income.test"))
    }
    return Source(
        {
            part: [delimited_file(path, names=list(COLUMNS), types=COLUMNS, finish=_finish)]
            for part, path in files.items()
        }
    )


def _finish(table: pa.Table) -> pa.Table:
    """Values without the spaces around them, "?" as null, and the labels."""
    columns = {name: table[name] for name in table.column_names}
    for name, kind in COLUMNS.items():
        if kind == _TEXT:
            text = pc.utf8_trim_whitespace(columns[name])
            columns[name] = pc.if_else(pc.equal(text, "?"), None, text)
    income = columns.pop("income")
    labels = {
        "income_over_50k": pc.equal(income, "50000+."),
        "never_married": pc.equal(columns["marital_stat"], "Never married"),
        "some_college": pc.is_in(columns["education"], pa.array(COLLEGE)),
    }
    columns |= {name: label.cast(pa.int8()) for name, label in labels.items()}
    return pa.table(columns)
