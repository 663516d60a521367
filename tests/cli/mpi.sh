# mpi.sh - trainings of several processes, two and four on one machine.
if ! command -v mpirun > /dev/null || [ ! -e "$build/memplan_mpi.so" ]; then
    echo "SKIPPED: trainings of many ranks: there is no mpirun, or no MPI module"
else
    for what in same_bits all_but_tables after_every_step more_options shared_out fast a_rank_dies a_rank_is_stopped ranks_differ wrong_numbers a_file_is_missing network_is_measured; do
        holds "mpi_$what" python3 -B "$root/tests/cli/many_ranks.py" "$memplan" $what
    done
fi
