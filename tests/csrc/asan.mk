# The C extension's tests under AddressSanitizer: `make -f tests/csrc/asan.mk asan PYTHON=.venv/bin/python`.
# The instrumented copy is built and run in a temporary folder, so that it never stands next to the normal one.
# Leaks are not looked for: CPython and torch keep much until exit; test_compiled.py counts references and memory instead.
PYTHON ?= python3
PYTEST_ARGS ?=

.PHONY: asan
asan:
	@set -e; copy=$$(mktemp -d); trap 'rm -rf "$$copy"' EXIT; \
	mkdir -p $$copy/dynamo $$copy/inductor $$copy/tests; \
	cp -r dynamo/csrc $$copy/dynamo/; cp -r inductor/csrc $$copy/inductor/; cp setup.py pyproject.toml README.md LICENSE $$copy/; cp -r tests/csrc tests/__init__.py $$copy/tests/; \
	cp dynamo/_C.pyi $$copy/dynamo/; cp inductor/_host.pyi $$copy/inductor/; : > $$copy/dynamo/__init__.py; cd $$copy; \
	CFLAGS="-O1 -g -fsanitize=address -fno-omit-frame-pointer" LDFLAGS="-fsanitize=address" $(PYTHON) setup.py -q build_ext --inplace; \
	LD_PRELOAD=$$(gcc -print-file-name=libasan.so) ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=0 PYTHONMALLOC=malloc OMP_NUM_THREADS=1 \
		PYTHONPATH=. $(PYTHON) -m pytest -q -p no:cacheprovider tests/csrc $(PYTEST_ARGS)
