/* cmd_model.c - the command model: writes a network that memplan knows by name as an ONNX file. */
#include "cli/messages/messages.h"
#include "cli/options/commands.h"
#include "cli/options/options.h"
#include "executor/workload/workload.h"
#include "executor/workload/workload_source.h"
#include "memplan/onnx.h"

int cmd_model(options *o)
{
    mp_error err = {0};
    const char *name = o->operands[0];
    MP_ABOUT(&err, name);
    MP_OWNED_BY(mp_model_free) mp_model *model = NULL;
    if (!o->output.out) return usage_error("model needs a file to write into: -o model.onnx");
    if (mp_workload_named(name, &o->model, &model, &err) != MP_OK) return input_failed(&err);
    return mp_onnx_write(model, !o->model.batch, o->output.out, &err) == MP_OK ? EXIT_DONE : output_failed(&err);
}
