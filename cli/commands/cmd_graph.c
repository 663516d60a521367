/* cmd_graph.c - the command graph: writes the training graph of a model. */
#include "cli/messages/messages.h"
#include "cli/options/commands.h"
#include "cli/options/load.h"
#include "cli/options/options.h"
#include "executor/workload/workload.h"
#include "memplan/graph_json.h"

int cmd_graph(options *o)
{
    mp_error err = {0};
    MP_CLEARED_BY(mp_workload_free) mp_workload s = {0};
    if (load_workload(o->operands[0], o, &s, &err) != MP_OK) return input_failed(&err);
    return mp_graph_write(s.graph, o->output.out ? o->output.out : "-", &err) == MP_OK ? EXIT_DONE : output_failed(&err);
}
