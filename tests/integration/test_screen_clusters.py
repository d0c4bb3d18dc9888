"""Screening on other people's executors: pools, a Ray cluster, a Dask cluster, workers killed."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

import planguard as pg

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "automl"

pytestmark = [
    pytest.mark.processes,
    # The engines' own: sockets and processes they leave to the collector, deprecated calls.
    pytest.mark.filterwarnings("ignore::Warning"),
]


def exchange(number):
    """Two ranks that exchange a message; every third time in an order that hangs."""
    plan = pg.PlanBuilder(2, name=f"plan {number}")
    for rank in (0, 1):
        program = plan.program(rank)
        for sends in (True, False) if number % 3 == 0 or rank == 0 else (False, True):
            if sends:
                program.send(peer=1 - rank, bytes=4 << number % 4)
            else:
                program.recv(peer=1 - rank, bytes=4 << number % 4)
    return plan.build()


@pytest.fixture(autouse=True)
def as_urgent_as_the_others(monkeypatch):
    """Ray's workers run at niceness 15 and starve beside other tests: two busy cores stop them."""
    monkeypatch.setenv("RAY_worker_niceness", "0")


@pytest.fixture(scope="module")
def given():
    """400 trials."""
    return [(f"t{number:03}", exchange(number), {"number": number}) for number in range(400)]


@pytest.fixture(scope="module")
def expected(given):
    """Their rows, made in this process."""
    return list(pg.screen(given, executor="inline").rows())


def killing(find, times):
    """Kill what ``find`` returns, a little later each time; returns the thread and the victims."""
    killed, stop = [], threading.Event()

    def run():
        while len(killed) < times and not stop.wait(0.05):
            fresh = [pid for pid in find() if pid not in killed]
            if fresh:
                killed.append(fresh[0])
                os.kill(fresh[0], signal.SIGKILL)
                stop.wait(0.3)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, killed, stop


def screened_while_killing(given, expected, executor, find, times=2):
    """Screen until enough workers were killed in the middle; every screening has every row."""
    thread, killed, stop = killing(find, times)
    try:
        for _ in range(20):
            assert list(pg.screen(given, executor=executor, cache=False).rows()) == expected
            if len(killed) >= times:
                break
    finally:
        stop.set()
        thread.join()
    assert len(killed) >= times


def test_threads(given, expected):
    """A pool of threads gives the same rows; every thread has a process of its own below it."""
    with ThreadPoolExecutor(2) as pool:
        assert list(pg.screen(given, executor=pool).rows()) == expected


def test_a_broken_process_pool(given, expected):
    """A process pool is broken for good when a worker dies: this machine does the rest."""
    with ProcessPoolExecutor(2) as pool:
        pool.submit(os.getpid).result()
        screened_while_killing(given, expected, pool, lambda: list(pool._processes or ()), times=1)


def test_dask(given, expected):
    """A Dask cluster gives the same rows, also when its workers are killed in the middle."""
    distributed = pytest.importorskip("distributed", reason="the extra dask is not installed")
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50
    )
    with cluster, distributed.Client(cluster) as client:
        assert list(pg.screen(given, executor=client).rows()) == expected

        def workers():
            return [n.pid for n in cluster.workers.values() if n.pid is not None]

        screened_while_killing(given, expected, client, workers)


def test_ray(given, expected):
    """A Ray cluster gives the same rows, also when its workers are killed in the middle."""
    ray = pytest.importorskip("ray", reason="the extra ray is not installed")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False)
    try:
        assert list(pg.screen(given, executor="ray").rows()) == expected

        def workers():
            mine = psutil.Process().children(recursive=True)
            return [p.pid for p in mine if "ray::run_chunk" in title(p)]

        screened_while_killing(given, expected, "ray", workers)
    finally:
        ray.shutdown()


def title(process):
    """The command line of a process, "" if it is gone."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def run_example(name, **extra):
    """Run a script of examples/automl and return what it printed."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)],
        capture_output=True,
        text=True,
        timeout=110,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **extra},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_callback_trains_what_is_safe():
    """A grid search behind the gate trains the safe trials and blocks the uneven batches."""
    assert "32 trials trained, 8 blocked: ['PG007'] with [16, 24]" in run_example(
        "with_a_callback.py"
    )


def test_optuna_prunes_and_records_the_code():
    """An Optuna study behind the gate prunes exactly the unsafe trials, with their code."""
    pytest.importorskip("optuna", reason="the extra optuna is not installed")
    assert "33 trials trained, 7 pruned: {'': 33, 'PG007': 7}" in run_example("with_optuna.py")


def test_ray_tune_asks_for_nothing_where_a_trial_is_unsafe():
    """Behind the gate an unsafe configuration asks for one core, no GPU, and reports its code."""
    pytest.importorskip("ray.tune", reason="ray[tune] is not installed", exc_type=ImportError)
    from planguard.screen.tune import screened

    sys.path.insert(0, str(EXAMPLES))
    try:
        from small_model import to_plan
    finally:
        sys.path.remove(str(EXAMPLES))
    behind = screened(print, to_plan, resources={"cpu": 2, "gpu": 8}, blocked={})
    config = {"batch": 16, "bucket_mb": 1}
    asked = behind._resources
    assert asked({**config, "drop_last": True}) == {"cpu": 2, "gpu": 8}
    assert asked({**config, "drop_last": False}) == {"cpu": 1}
    assert "3 trials trained, 1 blocked: {'': 3, 'PG007': 1}" in run_example("with_ray_tune.py")


def relative_trials(folder):
    """Plan files, a planner's file and a planner's folder below a folder, by relative paths."""
    root = Path(__file__).resolve().parents[2]
    (folder / "runs/t1").mkdir(parents=True)
    (folder / "runs/t1/schedule.csv").write_bytes(
        (root / "examples/pipelining/interleaved1f1b-4x8.csv").read_bytes()
    )
    (folder / "runs/t1/params.json").write_text('{"width": 4}')
    shutil.copytree(root / "tests/samples/chakra/pipeline", folder / "runs/t2")
    for number in range(3):
        (folder / f"runs/{number}.plan.json").write_bytes(exchange(number).source)
    (folder / "runs/broken.plan.json").write_text('{"schema": "planguard.plan/1"}')


def elsewhere(folder, given, executor, monkeypatch):
    """Screen by relative paths from a folder that the workers are not in."""
    monkeypatch.chdir(folder)
    return list(pg.screen(given, executor=executor).rows())


@pytest.mark.parametrize("given", ["runs", "absolute", "../here/runs"])
def test_workers_elsewhere_get_the_bytes(given, tmp_path, monkeypatch):
    """Dask and Ray workers with another working directory give the rows of this process, for plan
    files, planners' files and folders, named relative to a folder that the workers are not in.
    """
    distributed = pytest.importorskip("distributed", reason="the extra dask is not installed")
    here, other = tmp_path / "here", tmp_path / "other"
    here.mkdir()
    other.mkdir()
    relative_trials(here)
    given = str(here / "runs") if given == "absolute" else given
    local = elsewhere(here, given, "inline", monkeypatch)
    assert [row.outcome for row in local].count("UNKNOWN") == 1
    assert {row.name.rsplit("/", 1)[1] for row in local} >= {"schedule.csv", "t2"}
    monkeypatch.chdir(other)
    cluster = distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, dashboard_address=None, silence_logs=50
    )
    with cluster, distributed.Client(cluster) as client:
        assert client.run(os.getcwd) == dict.fromkeys(client.run(os.getcwd), str(other))
        assert elsewhere(here, given, client, monkeypatch) == local


def test_ray_workers_elsewhere_get_the_bytes(tmp_path, monkeypatch):
    """The same with real Ray workers, which stand in the folder of their own session."""
    ray = pytest.importorskip("ray", reason="the extra ray is not installed")
    here, other = tmp_path / "here", tmp_path / "other"
    here.mkdir()
    other.mkdir()
    relative_trials(here)
    local = elsewhere(here, "runs", "inline", monkeypatch)
    monkeypatch.chdir(other)
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, configure_logging=False)
    try:
        assert ray.get(ray.remote(lambda: str(Path.cwd())).remote()) != str(here)
        assert elsewhere(here, "runs", "ray", monkeypatch) == local
    finally:
        ray.shutdown()


def page():
    """Return the blocks of the page, but that of Ax, which has a test of its own."""
    text = (EXAMPLES.parents[1] / "docs/how-to/screen-experiments.md").read_text("utf-8")
    found = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return "\n".join(block for block in found if "from ax." not in block)


@pytest.mark.timeout(400)  # three trials of Ray Tune, each in a process of its own
def test_the_code_of_the_page_runs_with_the_real_libraries(tmp_path):
    """The page's own to_plan and search, run by real Optuna and Ray Tune: unsafe trials are pruned
    or blocked with their code, all others train, and no search ends early.
    """
    ray = pytest.importorskip("ray", reason="the extra ray is not installed")
    pytest.importorskip("ray.tune", reason="the extra ray[tune] is not installed")
    optuna = pytest.importorskip("optuna", reason="the extra optuna is not installed")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    names = {"__name__": "__main__"}
    paths = os.pathsep.join(filter(None, sys.path))
    ray.init(
        num_cpus=1,
        include_dashboard=False,
        log_to_driver=False,
        configure_logging=False,
        runtime_env={"env_vars": {"PYTHONPATH": paths}},
    )
    try:
        exec(page(), names)  # noqa: S102  the page
        for trial in names["study"].trials:
            odd = trial.params["batches"] % 2
            assert trial.state.name == ("PRUNED" if odd else "COMPLETE")
            assert trial.user_attrs.get("planguard.code") == ("PG007" if odd else None)
        assert len(names["study"].trials) == 40
        assert names["objective"]({"batches": 3}) == float("inf")
        assert names["objective"]({"batches": 4}) == 4.0
        names["tuner"]._local_tuner._run_config.storage_path = str(tmp_path)
        results = names["tuner"].fit()
        said = {r.config["batches"]: r.metrics.get("planguard_code") for r in results}
        assert said == {3: "PG007", 4: None, 5: "PG007"}
        assert results.get_best_result().metrics["loss"] == 4.0
    finally:
        ray.shutdown()


def test_tune_needs_to_know_what_it_compares():
    """Without a metric or values of its own, the hook says what is missing before Tune starts."""
    pytest.importorskip("ray.tune", reason="the extra ray[tune] is not installed")
    from planguard.screen.tune import screened

    with pytest.raises(pg.UsageError, match="end the search"):
        screened(print, print)
    with pytest.raises(pg.UsageError, match="mode"):
        screened(print, print, metric="loss", mode="least")


def benchmark(name):
    """Return a module of benchmarks/."""
    folder = str(EXAMPLES.parents[1] / "benchmarks")
    sys.path.insert(0, folder)
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(folder)


def victims(mark):
    """The processes with a mark in their command line."""
    return [one for one in psutil.process_iter() if mark in title(one)]


def halfway(given, executor, kill):
    """Screen, call ``kill`` when half of the trials have been taken, and return the rows.

    Those that are not taken yet need the pool, however fast it decided the others.
    """

    def feed():
        yield from given[: len(given) // 2]
        kill()
        yield from given[len(given) // 2 :]

    return list(pg.screen(feed(), executor=executor).rows())


@pytest.mark.timeout(400)
def test_a_scheduler_of_dask_that_dies(given, expected, tmp_path, capfd):
    """Workers and a scheduler started by hand; the scheduler is killed: this machine goes on."""
    pytest.importorskip("distributed", reason="the extra dask is not installed")
    with benchmark("screen_clusters").dask(sys.executable, tmp_path, 1) as client:
        client.get_executor(pure=False).submit(os.getpid).result()
        client._timeout = 5  # seconds in which it looks for its scheduler again
        port = client.scheduler.address.rpartition(":")[2]

        def kill():
            (scheduler,) = victims(f"dask_scheduler --host 127.0.0.1 --port {port}")
            scheduler.kill()

        assert halfway(given, client, kill) == expected
    assert "note: the pool has gone" in capfd.readouterr().err


@pytest.mark.timeout(400)
@pytest.mark.parametrize("which", ["gcs_server", "raylet", "gcs_server raylet"])
def test_a_head_of_ray_that_dies(which, given, expected, tmp_path, capfd):
    """Its head, the node of the driver or both are killed: every row is there, nothing waits.

    Without its head Ray may go on with the workers that it has; then nothing has gone.
    """
    ray = pytest.importorskip("ray", reason="the extra ray is not installed")
    with benchmark("screen_clusters").ray_cluster(sys.executable, tmp_path, 1) as address:
        benchmark("screen_clusters").connected(address)
        try:

            def kill():
                port = address.rpartition(":")[2]
                found = [one for one in victims(port) if one.name() in which.split()]
                assert len(found) == len(which.split())
                for one in found:
                    one.kill()

            assert halfway(given, "ray", kill) == expected
        finally:
            ray.shutdown()
    has_gone = "note: the pool has gone" in capfd.readouterr().err
    assert has_gone or which == "gcs_server"


def test_a_worker_with_another_planguard_is_refused(given):
    """Its rules are others: it decides nothing, and the screening ends with what to do."""
    from planguard.screen import remote

    asked = []

    class Older:
        def submit(self, function, data):
            asked.append(data)
            future = Future()
            head, _, tasks = data.partition(b"\n")
            assert pg.__version__.encode() in head
            said = function(head.replace(pg.__version__.encode(), b"0.0.9") + b"\n" + tasks)
            assert said == head + b"\n"  # what this one says to a chunk of another
            future.set_result(said.replace(pg.__version__.encode(), b"0.0.9"))
            return future

    with pytest.raises(
        pg.UsageError, match=r"a worker has planguard 0\.0\.9 .*, this is"
    ) as refused:
        list(pg.screen(given, executor=Older()).rows())
    assert "the same PlanGuard" in refused.value.hint
    assert asked
    assert remote.answers_of(remote.run_chunk(remote.chunk_of([]))) == []


def test_a_worker_without_planguard_is_refused(given):
    """Trying again is no use, and no trial is called undecided for it."""

    class Without:
        def submit(self, function, data):
            future = Future()
            future.set_exception(ModuleNotFoundError("No module named 'planguard'"))
            return future

    with pytest.raises(pg.UsageError, match="cannot import planguard"):
        list(pg.screen(given, executor=Without()).rows())


@pytest.mark.parametrize("executor", ["dask:tcp://127.0.0.1:9", "dask:nowhere"])
def test_a_cluster_that_is_not_there(executor, given):
    """The error names the address and how it is written."""
    pytest.importorskip("distributed", reason="the extra dask is not installed")
    import dask

    with (
        dask.config.set({"distributed.comm.timeouts.connect": "1s"}),
        pytest.raises(pg.UsageError, match="scheduler is not reached") as refused,
    ):
        pg.screen(given, executor=executor)
    assert "tcp://HOST:PORT" in refused.value.hint
