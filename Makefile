# Every target sets up what it needs by itself. The two to know: make demo, make test.

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
READY := $(VENV)/.ready
DEMO_READY := $(VENV)/.ready-demo
DOCS_READY := $(VENV)/.ready-docs
PADDLE := .venv-paddle
PADDLE_READY := $(PADDLE)/.ready
TF := .venv-tf
TF_READY := $(TF)/.ready
TORCH := torch==2.13.0
CONSTRAINTS := -c constraints.txt

# pytest's; tests wait for processes and browsers, so that one more than there are cores may be quicker
WORKERS := 3

# what needs no browser, no front end's framework and no compiler
QUICK := bench capture gc_tools graph machine numerics ops plan pod popart run session trace

PLANNED := resnet50_training bert_base_training bert_large_training gpt2_small_training vit_base_training lstm cnn

.DEFAULT_GOAL := help
.PHONY: help demo check test test-all test-paddle test-tensorflow lint fuzz fuzz-tensorflow fuzz-programs fuzz-rules fuzz-poplar bench bench-cycles bench-gains bench-plan bench-poplar bench-search crash docs wheel-test clean
.PHONY: conformance-optimum conformance-popart conformance-popart-programs conformance-popxl conformance-poplar-cpp conformance-paddle conformance-tensorflow conformance-tensorflow-programs bench-paddle demo-paddle conformance-onnx bench-onnx

help: ## what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-20s %s\n", $$1, $$2 }' Makefile

demo: $(DEMO_READY) ## train a digit classifier as an IPU program and write a report
	$(BIN)/openipu run --profile demo-report examples/poptorch_mnist.py
	@echo
	@echo "Open the report of each program in a browser:"
	@ls demo-report/*/report.html

demo-paddle: $(PADDLE_READY) ## the same with PaddlePaddle: train digits, verify, save, and recognise a 3
	.venv/bin/gc-info -l
	$(PADDLE)/bin/python -m openipu run --profile demo-report/paddle examples/paddle/mnist_train.py
	$(PADDLE)/bin/python examples/paddle/mnist_infer.py

.PHONY: screenshots container-test demo-keras bench-keras conformance-keras garden
demo-keras: $(TF_READY) ## the same with Keras: a CNN on made-up CIFAR-10
	TF_CPP_MIN_LOG_LEVEL=2 $(TF)/bin/python -m openipu run --profile demo-report/keras examples/tensorflow/offline.py examples/tensorflow/keras_cifar10_ipu.py --images 4000

check: $(READY) lint ## lint, types, layers and the quick tests
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile -m "not slow and not browser" $(QUICK:%=tests/%)

# BESIDE: further targets to run beside the tests of Paddle and TensorFlow
test: $(READY) ## lint, types, layers and all tests
	$(MAKE) -j3 --output-sync=target $(PADDLE_READY) $(TF_READY) lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile
	$(MAKE) -j3 --output-sync=target test-paddle test-tensorflow $(BESIDE)

test-paddle: $(PADDLE_READY) ## the tests beside Paddle, in its environment
	OMP_NUM_THREADS=1 $(PADDLE)/bin/python -m pytest tests/paddle

test-tensorflow: $(TF_READY) ## the tests beside TensorFlow, in its environment
	OMP_NUM_THREADS=1 $(TF)/bin/python -m pytest -n 2 --dist loadfile tests/tensorflow

test-all: $(READY) ## make test with every seed and class, also those that repeat a neighbour
	OPENIPU_THOROUGH=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile

lint: $(READY) ## ruff, clang-format, mypy, the layers of the pipeline, and the pages' scripts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run --Werror src/openipu/run/kernels/cpp/*
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/lint_scripts.py

fuzz: $(READY) ## damage files of every kind and read them; FUZZ="--mutations 100000 --seed 1" for more
	$(BIN)/python -m fuzz $(FUZZ)

fuzz-tensorflow: $(TF_READY) ## the same for SavedModels, .keras files and applications, in TensorFlow's environment
	FUZZ_MODULES=fuzz.tensorflow_kinds TF_CPP_MIN_LOG_LEVEL=3 $(TF)/bin/python -m fuzz --kinds saved-model,keras-file,application --mutations 2000 $(FUZZ)

bench: $(READY) ## speed, memory and first steps against PyTorch, an hour or two; BENCH="--quick" is a minute
	$(BIN)/pip install --quiet onnxruntime onnxscript
	$(BIN)/python -m bench $(BENCH)

fuzz-poplar: $(READY) ## 2,000 random Poplar programs (3,000 with races), batched against one vertex at a time; PROGRAMS=5000 for more
	OMP_NUM_THREADS=1 OPENIPU_RANDOM_PROGRAMS=$(or $(PROGRAMS),2000) $(BIN)/python -m pytest -q tests/poplar/test_random_programs.py

bench-gains: $(READY) ## which models gain from each pass and kernel, 15 minutes; GAINS="--only 'share views'" is one of them
	OMP_NUM_THREADS=1 $(BIN)/python -m bench.gains $(GAINS)
	$(BIN)/python -m bench.gain_records
	$(BIN)/ruff format src/openipu/run

bench-poplar: $(READY) ## building, running and planning Poplar programs against their limits
	$(BIN)/python -m bench.poplar_speed

bench-cycles: $(READY) ## memory of a process that compiles and destroys 1,000 programs; CYCLES="--cycles 100" is quicker
	OMP_NUM_THREADS=1 $(BIN)/python -m bench.compile_cycles $(CYCLES)

bench-search: $(READY) ## time of the automatic split, where something fits and where nothing does
	OMP_NUM_THREADS=1 $(BIN)/python -m bench.search_speed

bench-plan: $(READY) ## time of planning every example model
	$(BIN)/openipu plan $(PLANNED:%=examples/plan_models.py:%)

crash: $(READY) ## kill processes at work: is anything lost or left? Some minutes; CRASH="--kills 100 --seed 2" chooses
	$(BIN)/python tests/robustness/crash.py $(CRASH)

fuzz-programs: $(READY) ## random programs against eager PyTorch; FUZZ="--programs 100 --seed 7"
	OMP_NUM_THREADS=1 $(BIN)/python tests/run/random_programs.py $(FUZZ)

fuzz-rules: $(READY) ## generated models for each pass of the engine; FUZZ="--cases 20000 --seed 1 --kernels" for more
	OMP_NUM_THREADS=1 $(BIN)/python tests/run/fuzz_rules.py $(FUZZ)

docs: $(DOCS_READY) ## run the examples of the documentation and build it into site/
	$(BIN)/python docs/generate_api.py
	$(BIN)/python docs/generate_paddle.py
	$(BIN)/python docs/generate_tensorflow.py
	$(BIN)/python docs/generate_tensorflow_api.py
	$(BIN)/python docs/generate_poplar.py
	$(BIN)/python docs/generate_garden.py
	$(BIN)/python -m pytest tests/docs
	$(BIN)/zensical build --strict
	$(BIN)/python tools/finish_site.py site
	@echo "Open site/index.html."

screenshots: $(READY) ## take the documentation's pictures of the report again; PICTURES="report_trace" takes some
	OMP_NUM_THREADS=1 $(BIN)/python tools/draw_screenshots.py $(PICTURES)

container-test: $(READY) ## every step of the Dockerfile and the dev container in a clean environment, with all downloads
	OPENIPU_CONTAINER=full $(BIN)/python -m pytest tests/docs/test_container.py

wheel-test: $(READY) ## build the wheel, install it into a clean environment, and use it there
	.ci/wheel-test $(BIN)/python

conformance-paddle: $(PADDLE_READY) ## run the public test/ipu of Paddle; OPENIPU_PADDLE_CHECKOUT names its checkout
	$(PADDLE)/bin/python tests/conformance/run_paddle.py --page

conformance-tensorflow: $(TF_READY) ## run the public tests of TensorFlow on IPU; OPENIPU_TENSORFLOW_CHECKOUT names their checkout
	-$(TF)/bin/python tests/conformance/run_tensorflow.py
	$(TF)/bin/python tests/conformance/tensorflow_page.py tensorflow_outcomes.json

conformance-tensorflow-programs: $(TF_READY) ## run TensorFlow's public programs; OPENIPU_TUTORIALS_CHECKOUT names their checkout
	OMP_NUM_THREADS=1 $(TF)/bin/python tests/conformance/run_tensorflow_programs.py --page

bench-paddle: $(PADDLE_READY) ## training and inference against Paddle's own CPU executor and predictor
	OMP_NUM_THREADS=1 $(PADDLE)/bin/python -m bench.paddle_speed

bench-keras: $(TF_READY) ## training, first steps and infeed against stock Keras on TensorFlow
	$(TF)/bin/python -m bench.keras_speed

conformance-keras: $(TF_READY) ## numbers of Keras models against stock Keras, in float32 and in doubles
	$(TF)/bin/python tests/conformance/run_keras_numerics.py

conformance-optimum: $(READY) ## run the original optimum-graphcore on our PopTorch; OPENIPU_OPTIMUM_CHECKOUT names its checkout
	$(BIN)/python tests/conformance/run_optimum.py --page

garden: $(READY) $(TF_READY) ## train every family of the model garden to its quality, ten minutes; FAMILIES="resnet-50 vit" chooses
	OMP_NUM_THREADS=1 $(BIN)/openipu garden run $(or $(FAMILIES),--all)
	test -n "$(FAMILIES)" || OMP_NUM_THREADS=1 TF_CPP_MIN_LOG_LEVEL=3 $(TF)/bin/python -m openipu garden run unet-medical

conformance-onnx: $(READY) ## ONNX's own node cases, and exported models against PyTorch
	$(BIN)/python tests/conformance/run_onnx_nodes.py --page
	$(BIN)/python tests/conformance/run_onnx_exports.py

bench-onnx: $(READY) ## inference of ONNX files against ONNX Runtime, and the planning of a large one
	$(BIN)/pip install --quiet onnxruntime
	$(BIN)/python -m bench.onnx_speed
	$(BIN)/python -m bench.onnx_plan

conformance-popart: $(READY) ## run the public PopART suite; OPENIPU_POPART_CHECKOUT names its checkout
	$(BIN)/python tests/conformance/run_popart.py --page

conformance-popart-programs: $(READY) ## run PopART's public programs; OPENIPU_TUTORIALS_CHECKOUT names their checkout
	$(BIN)/python tests/conformance/run_popart_examples.py

conformance-popxl: $(READY) ## run PopXL's public programs; OPENIPU_POPART_CHECKOUT and OPENIPU_EXAMPLES_CHECKOUT name their checkouts
	$(BIN)/python tests/conformance/run_popxl.py guide --page
	$(BIN)/python tests/conformance/run_popxl.py tutorials --page
	$(BIN)/python tests/conformance/run_popxl_suite.py --page

conformance-poplar-cpp: $(READY) ## build and run the public C++ programs for Poplar; OPENIPU_EXAMPLES_CHECKOUT names their checkout
	$(BIN)/python tests/conformance/run_poplar_cpp.py --page

.PHONY: applications conformance-geometric
conformance-geometric: $(READY) ## run the public tests of PopTorch Geometric's loaders; OPENIPU_POPTORCH_CHECKOUT names their checkout
	$(BIN)/python tests/conformance/run_geometric.py

applications: $(READY) ## run public applications unmodified; OPENIPU_EXAMPLES_CHECKOUT names their checkout, APPLICATIONS="nlp/bert" chooses
	OMP_NUM_THREADS=1 $(BIN)/python tests/conformance/run_applications.py --page $(APPLICATIONS)

clean: ## remove everything that make has made
	rm -rf $(VENV) $(PADDLE) $(TF) build dist site .cache demo-report fuzz-failures .mypy_cache .ruff_cache .pytest_cache .import_linter_cache src/*.egg-info
	find src tests examples bench fuzz -name __pycache__ -type d -prune -exec rm -rf {} +

# torch comes first and setuptools before the project: an isolated build would install both again.
$(DEMO_READY): pyproject.toml setup.py constraints.txt
	test -x $(BIN)/python || python3 -m venv $(VENV)
	$(PIP) install --quiet $(CONSTRAINTS) setuptools $(TORCH)
	$(PIP) install --quiet $(CONSTRAINTS) --no-build-isolation -e ".[demo]"
	touch $@

$(READY): $(DEMO_READY)
	$(PIP) install --quiet $(CONSTRAINTS) --no-build-isolation -e ".[dev]"
	touch $@

# Paddle and TensorFlow cannot share a process, so each has packages of its own on top of those of .venv.
$(PADDLE_READY): $(READY) constraints.txt
	test -x $(PADDLE)/bin/python || python3 -m venv $(PADDLE)
	$(PADDLE)/bin/python -m pip --disable-pip-version-check install --quiet $(CONSTRAINTS) paddlepaddle
	$(PADDLE)/bin/python tools/overlay.py $(VENV)
	touch $@

$(TF_READY): $(READY) constraints.txt
	test -x $(TF)/bin/python || python3 -m venv $(TF)
	$(TF)/bin/python -m pip --disable-pip-version-check install --quiet $(CONSTRAINTS) tensorflow-cpu keras
	$(TF)/bin/python tools/overlay.py $(VENV)
	touch $@

$(DOCS_READY): $(READY)
	$(PIP) install --quiet $(CONSTRAINTS) --no-build-isolation -e ".[docs]"
	touch $@
