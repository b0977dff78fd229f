"""Census-Income, Frappe, Criteo and Avazu, from lines in the providers' layouts."""

import pytest

from pipelines.common.errors import PipelineError
from pipelines.ingest.datasets.census_income import COLUMNS
from tests.pipelines.ingest.files import THIRDS, read_all, read_split, run, write_text

PROVIDED = {"by": "provided", "valid": 0.3}


def _census(age, education, marital, income, father="?"):
    cells = dict.fromkeys(COLUMNS, "Not in universe")
    cells |= {name: "7" for name, kind in COLUMNS.items() if kind == "int64"}
    cells |= {"age": str(age), "education": education, "marital_stat": marital}
    cells |= {"instance_weight": "1700.09", "country_of_birth_father": father}
    return ", ".join([*list(cells.values())[:-1], income])


def test_census_income(tmp_path):
    train = [
        _census(30 + k, "Bachelors degree(BA AB BS)", "Divorced", "50000+.", " Peru ")
        for k in range(40)
    ]
    test = [_census(5, "Children", "Never married", "- 50000.")]
    write_text(tmp_path / "census-income.data.gz", "\n".join(train) + "\n")
    write_text(tmp_path / "census-income.test", "\n".join(test) + "\n")
    summary = run(tmp_path / "out", source="census-income", path=str(tmp_path), split=PROVIDED)
    assert summary["rows"]["test"] == 1
    assert summary["rows"]["train"] + summary["rows"]["valid"] == 40
    assert len(summary["columns"]) == 41 + 3
    rows = read_all(tmp_path / "out").to_pylist()
    first, child = min(rows, key=lambda row: -row["age"]), rows[-1]
    assert (first["age"], first["country_of_birth_father"]) == (69, "Peru")
    assert (first["income_over_50k"], first["never_married"], first["some_college"]) == (1, 0, 1)
    assert child["country_of_birth_father"] is None
    assert child["instance_weight"] == 1700.09
    assert (child["income_over_50k"], child["never_married"], child["some_college"]) == (0, 1, 0)


def test_frappe(tmp_path):
    header = "label,user,item,daytime,weekday,isweekend,homework,cost,weather,country,city\n"
    for number, name in enumerate(("train.csv.gz", "valid.csv", "test.csv.gz")):
        write_text(tmp_path / name, header + f"{number % 2},1,2,3,4,5,6,7,8,9,{number}\n")
    summary = run(tmp_path / "out", source="frappe", path=str(tmp_path), split={"by": "provided"})
    assert summary["rows"] == {"train": 1, "valid": 1, "test": 1}
    assert read_split(tmp_path / "out", "test")["city"].to_pylist() == [2]


def test_frappe_with_invalid_number_is_an_error(tmp_path):
    write_text(tmp_path / "train.csv", "label,user\n0,7\n1,seven\n")
    for name in ("valid.csv", "test.csv"):
        write_text(tmp_path / name, "label,user\n0,7\n")
    with pytest.raises(
        PipelineError,
        match=r"train\.csv: column 'user': expected a whole number, .*value 'seven'",
    ):
        run(tmp_path / "out", source="frappe", path=str(tmp_path), split={"by": "provided"})


def test_criteo(tmp_path):
    lines = [
        "\t".join([str(k % 2), "-1", "", *["3"] * 11, "68fd1e64", "", *["ab"] * 24])
        for k in range(50)
    ]
    path = write_text(tmp_path / "train.txt.gz", "\n".join(lines) + "\n")
    summary = run(tmp_path / "out", source="criteo", path=str(path), split=THIRDS)
    assert sum(summary["rows"].values()) == 50
    row = read_all(tmp_path / "out").to_pylist()[0]
    assert (row["I1"], row["I2"], row["I13"]) == (-1, None, 3)
    assert (row["C1"], row["C2"], row["C26"]) == ("68fd1e64", None, "ab")


def test_avazu(tmp_path):
    header = (
        "id,click,hour,C1,banner_pos,site_id,site_domain,site_category,app_id,app_domain,"
        "app_category,device_id,device_ip,device_model,device_type,device_conn_type,C14,C15,C16,"
        "C17,C18,C19,C20,C21\n"
    )
    lines = [
        f"1000016934911786371{k},{k % 2},14102{k % 10}13,1005,0,1fbe01fe,f3845767,28905ebd,e,7,07,a"
        ",96,71,1,0,1,320,50,1722,0,35,-1,79\n"
        for k in range(40)
    ]
    write_text(tmp_path / "train.csv.gz", header + "".join(lines))
    summary = run(
        tmp_path / "out",
        source="avazu",
        path=str(tmp_path),
        split={"by": "time", "valid": 0.2, "test": 0.2},
    )
    assert sum(summary["rows"].values()) == 40
    row = read_split(tmp_path / "out", "train").to_pylist()[1]
    assert row["id"] == "10000169349117863711"
    assert (row["hour"], row["weekday"]) == (13, 1)  # 21 October 2014 was a Tuesday
    assert row["timestamp"] == 1413896400
    assert (row["app_category"], row["C20"]) == ("07", -1)


@pytest.mark.parametrize("source", ["frappe", "trivago", "criteo", "avazu"])
def test_restricted_data_sets_name_their_source(source, tmp_path):
    with pytest.raises(PipelineError, match=r"accepting its terms: get .* Then set data\.path"):
        run(tmp_path / "out", source=source)
