# make demo: compress and restore photographs.  make test: everything that must hold.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
COPY = $(abspath $(VENV))/copy
MYPY = $(abspath $(BIN))/mypy --config-file $(CURDIR)/pyproject.toml --explicit-package-bases
# Tests may leave out annotations; what they call is checked all the same.
RELAXED = --allow-untyped-defs --allow-incomplete-defs --allow-untyped-calls --no-warn-unused-ignores
KERNELS = setup.py $(wildcard lmzip/native/*.c lmzip/native/*.h)

.PHONY: demo test slow sanitise lint clean

demo: $(VENV)/.demo
	$(BIN)/lmzip demo

test: $(VENV)/.dev lint
	$(BIN)/python -m pytest -n 2

slow: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 -m slow

# The kernels once more, in a copy, with GCC's sanitisers; Python itself is not built with them.
# They are built in a folder of their own: setuptools would take what lies in build/ as it is,
# whatever the flags, and later leave these there for others. Reports go to files, since pytest would
# swallow them, and memory that is not there is an error for Python to raise, as a test expects.
# Left out: training, which is torch's, what compiles kernels of its own without the sanitisers, and
# what starts a browser, which does not come up with them preloaded.
SANITISED = $(abspath $(VENV))/sanitised
sanitise: $(VENV)/.dev
	rm -rf $(SANITISED) $(SANITISED)-build
	mkdir $(SANITISED)-build
	printf '[build]\nbuild_base = %s\n' $(SANITISED)-build >$(SANITISED)-build/setup.cfg
	DIST_EXTRA_CONFIG=$(SANITISED)-build/setup.cfg \
	CFLAGS="-fsanitize=address,undefined -fno-sanitize-recover=all -g" \
	LDFLAGS="-fsanitize=address,undefined" LMZIP_REQUIRE_NATIVE=1 \
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --target $(SANITISED) .
	grep -q __asan_init $(SANITISED)/lmzip/native/_kernels.abi3.so
	PYTHONSAFEPATH=1 PYTHONPATH=$(SANITISED) \
	LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libubsan.so)" \
	ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:log_path=$(SANITISED)/report \
	UBSAN_OPTIONS=print_stacktrace=1:log_path=$(SANITISED)/report \
	$(BIN)/python -m pytest -q -n 2 -p no:cacheprovider tests --ignore=tests/models \
	--ignore=tests/native/test_compare.py --ignore=tests/cli/test_report_page.py \
	-k "not wrong_kernel" \
	|| (cat $(SANITISED)/report.*; false)

# mypy does not follow the folders that pyproject.toml maps, so it checks an installed copy, and
# tests and benchmarks against that.
lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --upgrade --target $(VENV)/copy .
	cd $(VENV)/copy && $(MYPY) -p lmzip
	cd benchmarks && MYPYPATH=$(COPY):. $(MYPY) --allow-untyped-calls --no-warn-unused-ignores .
	cd tests && MYPYPATH=$(COPY):. $(MYPY) $(RELAXED) .

$(VENV)/.demo: pyproject.toml $(KERNELS)
	test -d $(VENV) || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet -e ".[demo]"
	touch $@

# The version of torch is named first: a bare "torch" would bring gigabytes of CUDA packages.
$(VENV)/.dev: pyproject.toml $(KERNELS)
	test -d $(VENV) || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet torch==2.13.0
	LMZIP_REQUIRE_NATIVE=1 $(BIN)/pip install --quiet -e ".[dev]" "setuptools>=77"
	touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info
