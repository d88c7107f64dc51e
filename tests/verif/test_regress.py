from pathlib import Path
from xml.etree import ElementTree

import pytest

from verif import regress
from verif.catalog import BENCHES
from verif.harness.bench import Row


def passed(job: regress.Job) -> Row:
    return Row(*job[:2], tests=1, vectors=5, cycles=9, seed=job[2])


def test_jobs_cover_every_configuration_and_seed() -> None:
    jobs = regress.jobs_of(3, first=10)
    assert len(jobs) == len(set(jobs)) == 3 * sum(len(bench.configurations(long=True)) for bench in BENCHES)
    assert {seed for _, _, seed in jobs} == {10, 11, 12}


def test_a_job_that_breaks_is_a_failed_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: object, *__: object, **___: object) -> Row:
        raise RuntimeError("no such cycle")

    monkeypatch.setattr(type(BENCHES[0]), "run", broken)
    row = regress.run_job(regress.jobs_of(1, first=1)[0])
    assert row.verdict == "FAIL"
    assert row.failures == ["RuntimeError: no such cycle"]


def test_reports_name_what_failed(tmp_path: Path) -> None:
    good, bad = passed(("fifo", "aaaaaaaa", 1)), passed(("fifo", "bbbbbbbb", 2))
    bad.failures, bad.repeat = ["item 3 differs"], "SEED=2 systola sim fifo"
    regress.report([good, bad], first=1, folder=tmp_path / "regress")
    suite = ElementTree.parse(tmp_path / "regress" / "junit.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert (failure.get("message"), failure.text) == ("SEED=2 systola sim fifo", "item 3 differs")
    page = (tmp_path / "regress" / "summary.html").read_text()
    assert "bbbbbbbb" in page
    assert "item 3 differs" in page


@pytest.mark.filterwarnings("ignore")  # of the cluster's own start-up, not ours
def test_a_cluster_runs_every_job(monkeypatch: pytest.MonkeyPatch) -> None:
    from distributed import LocalCluster

    monkeypatch.setattr(regress, "run_job", passed)
    work = [("fifo", "aaaaaaaa", seed) for seed in range(7)]
    with LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None, protocol="tcp"
    ) as cluster:
        rows = list(regress._on_cluster(work, cluster.scheduler_address))
    assert sorted(row.seed for row in rows) == list(range(7))
