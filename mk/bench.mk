# Comparisons with recorded runs, other programs and PyTorch. They need external data (docs/internals/data.md).
bench: needs-data $B/memplan ## some rows of every table of BENCHMARKS.md beside the last recorded run, in two minutes (DATA=FOLDER)
	@tests/bench/bench_short.py $B/memplan $(DATA)
bench-all: needs-data $B/memplan $B/tests/bench_updates ## compare with published programs and figures, and with PyTorch (DATA=FOLDER)
	@tests/bench/bench_planner.sh $B/memplan $(DATA)/bench/graphs
	@tests/bench/bench_search.py $B/memplan $(DATA)
	@tests/bench/bench_ablation.py $B/memplan $(DATA)
	@tests/bench/bench_spread.py $B/memplan $(DATA)
	@tests/bench/bench_offload.py $B/memplan $(DATA)
	@tests/bench/bench_published.py $B/memplan $(DATA)
	@tests/bench/bench_formulas.py $B/memplan $(DATA)
	@tests/bench/bench_times.py $B/memplan $(DATA)
	@tests/bench/bench_arena.sh $B/memplan $(DATA)/models
	@tests/bench/bench_pack.sh $B/memplan $(DATA)/bench/minimalloc
	@tests/bench/bench_training.sh $B $(DATA)/models

bench-ranks: needs-data all ## as root: two ranks on a slow network, sums beside backward and after it; and beside PyTorch's DDP over gloo (DATA=FOLDER)
	@tests/bench/bench_overlap.py $B/memplan $(DATA)/models
	@$B/venv/bin/python3 -B tests/bench/bench_ranks.py $B/memplan $(DATA)/models

needs-data:
	@[ -n "$(DATA)" ] || { echo "Give DATA=FOLDER: bench/graphs there is converted from github.com/pfnet-research/recompute and \
	github.com/haoming-codes/moccasin by tests/bench/convert_graphs.py, bench/minimalloc copied from github.com/google/minimalloc, models \
	exported from PyTorch by tests/bench/export_models.py (docs/internals/data.md)." >&2; exit 2; }

verify: needs-data $B/memplan $B/tests/test_check $B/tests/test_plan_json ## our plans and verdicts against an outside verifier (DATA=FOLDER)
	@tests/verify/check_plans.sh $B $(DATA)/tools/check_plan.py
	@tests/verify/verify_plans.sh $B/memplan $(DATA)

$B/tests/bench_%: $B/tests/bench/bench_%.o $B/libmemplan.a
	$(call say,LD) $(CC) $(MP_CFLAGS) $(RPATH) -rdynamic -o $@ $(filter %.o,$^) $(WHOLE_LIBRARY) $(DEPS_LIBS)

.PHONY: bench bench-all bench-ranks needs-data verify
