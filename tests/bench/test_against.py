from bench.against import verdicts_of
from bench.contracts import Contract, contract_table


def test_the_largest_ratio_decides_whether_the_aim_is_met() -> None:
    alone = {"RSS MiB": 0.97, "CPU ms/collection": 0.9, "CPU ms/first scrape": 1.04, "start ms": 3.0}
    with_pods = {"RSS MiB": 1.0, "CPU ms/collection": None, "CPU ms/first scrape": 1.2, "start ms": 3.0}
    table = contract_table(verdicts_of([alone, with_pods]))
    assert [row[2:] for row in table.rows] == [
        ("not above", "1.00 x", "yes", "yes"),
        ("not above", "1.20 x", "NO", "NO"),
    ]
    assert verdicts_of([alone])[Contract.OTHER_CPU] == ("1.04 x", True, False)


def test_without_a_measurement_there_is_no_verdict() -> None:
    assert verdicts_of([]) == {}
