"""tables.py - the numbers and lists that the rules look things up in."""

from __future__ import annotations

ROOMS = ("estimator", "planner", "formats", "executor", "cli")  # each includes itself and those before it
LIBRARY = ("estimator", "planner", "formats", "executor")

MAX_LINES = 500
MAX_MAIN_LINES = 100
MAX_ENTRIES = 48  # entries of a folder that fit on a screen
MAX_PYTHON_LINES = 400  # of the PyTorch package
MAX_COLUMNS = 120  # of Markdown
MAX_FRONT_LINES = {"README.md": 80, "ARCHITECTURE.md": 120}

# Functions of headers whose definition is in no file whose name begins with the header's: the most there may be. Only ever made smaller.
MAX_STRAYS = 7

# Headers whose functions have no file of their own name, and why.
STRAYS_ALLOWED = {
    "estimator/model/ops_rules.h": "the functions that rows of ops.def name; each family has a file",
    "planner/search/searchers.h": "the functions that rows of the table of searchers name; each searcher has a file",
    "executor/backend.h": "what a module exports: each backend defines it",
}

# Headers that a file includes once for each of its tables.
INCLUDED_OFTEN = ("executor/operators/elementwise/elementwise_tables.h",)

# Foreign headers: the start of the path in #include, the folders or files that may include them, and the reason.
FOREIGN: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("igraph/", ("planner/order/dag.c", "tests/planner")),
    ("glpk.h", ("planner/math", "planner/ilp/ilp_search.c", "tests/planner/test_linear.c")),
    ("onnx.pb-c.h", ("formats/onnx", "tests")),
    ("protobuf-c/", ("formats/onnx",)),
    ("jansson.h", ("formats/json", "executor/workload", "cli/exhausted.c", "cli/options", "cli/reports", "cli/estimates", "tests/formats", "tests/executor")),
    ("cgraph.h", ("formats/canvas", "formats/data", "tests/formats")),
    ("gvc.h", ("formats/canvas",)),
    ("oneapi/", ("executor/cpu/base",)),
    ("cuda", ("executor/cuda/device",)),
    ("cudnn", ("executor/cuda/device", "executor/cuda/vendor")),
    ("cublas", ("executor/cuda/device", "executor/cuda/vendor")),
    ("uthash.h", ("estimator/base",)),
    ("liburing.h", ("executor/tiers/transfer.c",)),
    (
        "xxhash.h",
        (
            "estimator/graph/graph_hash.c",
            "planner/math/bits.c",
            "planner/pack/pack_search.c",
            "executor/data/feed.c",
            "executor/data/parameters.c",
            "executor/run/inspection.c",
            "executor/run/rank_results.c",
            "formats/base/checksum.c",
        ),
    ),
    ("cmocka.h", ("tests",)),
)

# Where operators are told apart by name: rules and rewrites of single operators, and the reading of ONNX files.
KINDS_ALLOWED = ("estimator/rules", "estimator/simplify", "estimator/model/ops.c", "formats/onnx", "tests")

# Where a mesh is parsed: its grammar, the options of the command line, and the options of graph and plan files.
MESH_READERS = ("estimator/network", "cli/options", "executor/workload/options_json.c")

# Where the rules of liveness are stated, and where graphs and plans are made, read, written and judged.
LIVENESS_HOMES = ("estimator/graph", "estimator/training", "formats/json")
LIVENESS_JUDGE = "planner/plan/check"

# Files of the library that may write to standard output, and why.
# Their texts were made visible before, or come from our own tables.
PRINTERS = ("cli/messages/print.c", "cli/messages/screen.c", "cli/options/help.c", "cli/manual.c")
SPEAKERS = {"formats/base/file.c": "the path - is standard output"}
