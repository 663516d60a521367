# mpi.sh - trainings of several processes, two and four on one machine.
if ! command -v mpirun > /dev/null || [ ! -e "$build/memplan_mpi.so" ]; then
    echo "SKIPPED: trainings of many ranks: there is no mpirun, or no MPI module"
else
    for what in same_bits all_but_tables after_every_step more_options shared_out frozen shared_out_with_options shared_out_sums fast a_rank_dies a_rank_is_stopped ranks_differ wrong_numbers a_file_is_missing network_is_measured; do
        holds "mpi_$what" python3 -B "$root/tests/cli/ranks/many_ranks.py" "$memplan" $what
    done
    holds mpi_network_is_as_its_schema_says sh -c "
        python=python3; \$python -c 'import jsonschema' 2> /dev/null || python=/usr/bin/python3
        \$python -c 'import json, jsonschema, sys; jsonschema.validate(*[json.load(open(f)) for f in sys.argv[1:]])' \\
            network.json '$root/docs/reference/schemas/network.json'"
    for what in as_one by_name with_data clipped goes_on refused; do
        holds "mpi_split_$what" python3 -B "$root/tests/cli/ranks/split_ranks.py" "$memplan" $what
    done
    for what in data split stages automatic; do
        holds "mpi_chunks_$what" python3 -B "$root/tests/cli/ranks/chunked_ranks.py" "$memplan" $what
    done
    for what in as_one_batch beside_stages residual sentences; do
        holds "mpi_statistics_$what" python3 -B "$root/tests/cli/ranks/shared_statistics.py" "$memplan" $what
    done
    for what in told_once other_data out_of_memory on_another_machine never_joined; do
        holds "mpi_$what" python3 -B "$root/tests/cli/ranks/failed_ranks.py" "$memplan" $what
    done
    for what in cut_short of_stages none_is_found; do
        holds "mpi_one_plan_$what" python3 -B "$root/tests/cli/ranks/one_plan.py" "$memplan" $what
    done
    for what in everywhere recomputed by_block; do
        holds "mpi_sent_bytes_$what" python3 -B "$root/tests/cli/ranks/sent_bytes.py" "$memplan" $what
    done
    holds mpi_by_workload python3 -B "$root/tests/cli/ranks/by_workload.py" "$memplan" all
    holds mpi_copied python3 -B "$root/tests/cli/ranks/copied_ranks.py" "$memplan" some
    for what in without_a_mesh lines_are_whole; do
        holds "mpi_$what" python3 -B "$root/tests/cli/ranks/alone_ranks.py" "$memplan" $what
    done
    holds mpi_interrupted python3 -B "$root/tests/cli/ranks/interrupts.py" "$memplan" 4
    holds mpi_strange python3 -B "$root/tests/cli/ranks/strange_ranks.py" "$memplan" refused
    holds mpi_killed python3 -B "$root/tests/cli/ranks/killed_ranks.py" "$memplan" 5
    for what in saved_in_parts resharded part_is_amiss uneven_data; do
        holds "mpi_$what" python3 -B "$root/tests/cli/ranks/saved_ranks.py" "$memplan" $what
    done
    for what in shared_out split stages; do
        holds "mpi_tested_$what" python3 -B "$root/tests/cli/ranks/tested_ranks.py" "$memplan" $what
    done
    for what in as_one_process same_bits more_options beside_data clipped by_plan tied saved refusals a_stage_dies; do
        holds "mpi_pipelines_$what" python3 -B "$root/tests/cli/ranks/pipelines.py" "$memplan" $what
    done
    for what in shared_out in_parts split more_ranks more_options by_plan saved refused a_rank_dies; do
        holds "mpi_hybrids_$what" python3 -B "$root/tests/cli/ranks/hybrids.py" "$memplan" $what
    done
    if [ -e "$build/tests/nccl/libnccl.so.2" ]; then # without a GPU: the same through the module that calls NCCL
        for what in same_calls same_calls_of_parts same_calls_of_the_library captured fails nothing_hangs one_rank; do
            holds "nccl_$what" python3 -B "$root/tests/nccl/twins.py" "$memplan" $what
        done
    fi
    for what in reports traces; do
        holds "mpi_$what" python3 -B "$root/tests/cli/ranks/rank_reports.py" "$memplan" $what
    done
fi

# Columnar files, which pyarrow writes: build/venv/bin/pip install pyarrow.
writer=
for python in "$build/venv/bin/python3" "$root/build/venv/bin/python3" python3; do
    [ -n "$writer" ] || ! "$python" -c 'import numpy, pyarrow.parquet' 2> /dev/null || writer=$python
done
if [ -z "$writer" ] || [ ! -e "$build/memplan_parquet.so" ]; then
    echo "SKIPPED: trainings on Parquet files: there is no Parquet module, or no pyarrow to write such files"
else
    for what in as_arrays in_a_folder misfits; do
        holds "columnar_$what" "$writer" -B "$root/tests/cli/ranks/columnar.py" "$memplan" $what
    done
    [ ! -e "$build/memplan_mpi.so" ] || holds columnar_dealt "$writer" -B "$root/tests/cli/ranks/columnar.py" "$memplan" dealt
fi
