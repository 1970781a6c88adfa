# Two commands: `make demo` runs the tiny job through all three stages on real verl, `make test` passes the tests.
# Both need Python 3.10-3.12 and install everything else into .venv.

PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test check unit engines install browser clean landscape bench-explain bench-extensions bench-first-feasible
.PHONY: bench-forecast bench-honesty bench-live bench-load-monitor bench-overhead bench-quality bench-search bench-warm

.venv/.installed: requirements/cpu.lock pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --no-deps -r requirements/cpu.lock
	$(BIN)/pip install --quiet --no-deps -e .
	touch $@

install: .venv/.installed

demo: install
	$(BIN)/python -m autotune.verl_plugin.tiny_job .tiny
	$(BIN)/autotune run jobs/tiny-cpu.yaml
	$(BIN)/autotune export --job jobs/tiny-cpu.yaml -o results/tiny-cpu-best.yaml
	$(BIN)/autotune report --job jobs/tiny-cpu.yaml -o results/tiny-cpu-report.html
	$(BIN)/autotune trials --job jobs/tiny-cpu.yaml

test: check unit engines

# Style, types and the import rule.
check: install
	$(BIN)/ruff check autotune tests benchmarks
	$(BIN)/ruff format --check autotune tests benchmarks
	$(BIN)/mypy
	$(BIN)/lint-imports

# Minutes: recorded evidence, a manual clock, SQLite and Optuna.
unit: install
	$(BIN)/python -m pytest -q -n 2 --dist loadfile -m "not ray and not verl and not browser"

# A quarter of an hour and more: real Ray, real verl trials two at a time, a real browser.
engines: install browser
	$(BIN)/python -m pytest -m "ray or verl or browser"

browser:
	command -v chromium >/dev/null || { apt-get update -qq && apt-get install -y -qq chromium; }

# Each prints a table, then one JSON line.
bench-explain: install
	$(BIN)/python -m benchmarks.explain

bench-forecast: install
	$(BIN)/python -m benchmarks.forecast

bench-honesty: install
	$(BIN)/python -m benchmarks.honesty

# Controller milliseconds at 100, 1,000 and 10,000 trials, beside Optuna and Ray Tune; the largest takes long.
bench-overhead: install
	$(BIN)/python -m benchmarks.overhead

# GPU seconds until close to the best of a recorded landscape, beside other searches.
bench-search: install
	$(BIN)/python -m benchmarks.search

# The speed stage by autotune and by Ray Tune on the same space, eight real trials each; 25 minutes.
bench-live: install
	$(BIN)/python -m benchmarks.live

# Adds real runs to the landscape for as many minutes; goes on where it stopped.
landscape: install
	$(BIN)/python -m autotune.verl_plugin.tiny_job .tiny
	$(BIN)/python -m benchmarks.landscape.record

# The same candidates warm and cold on real verl; 25 minutes and more.
bench-warm: install
	$(BIN)/python -m autotune.verl_plugin.tiny_job .tiny
	$(BIN)/python -m benchmarks.warm

# Ten quality stages of real verl, two at a time, from learning rates that are poor on purpose; 40 minutes.
bench-quality: install
	$(BIN)/python -m benchmarks.quality

# Seven cold trials of real verl, about 20 minutes on two quiet cores.
bench-extensions: install
	$(BIN)/python -m benchmarks.extensions

bench-first-feasible: install
	$(BIN)/python -m benchmarks.first_feasible

bench-load-monitor: install
	$(BIN)/python -m benchmarks.load_monitor

clean:
	rm -rf .venv .tiny
