/* cmd_graph.c - writes the training graph of a model. */
#include "cli/messages/messages.h"
#include "cli/options/commands.h"
#include "cli/subject/subject.h"
#include "memplan/graph_json.h"

int cmd_graph(options *o)
{
    mp_error err = {0};
    subject s;
    int rc = EXIT_DONE;
    if (subject_load(o->operands[0], o, &s, &err) != MP_OK)
        rc = input_failed(&err);
    else if (mp_graph_write(s.graph, o->output.out ? o->output.out : "-", &err) != MP_OK)
        rc = output_failed(&err);
    subject_free(&s);
    return rc;
}
