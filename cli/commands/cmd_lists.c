/* cmd_lists.c - the commands that list searchers, device profiles, networks known by name, and operators. For each operator,
 * the list states the passes that a backend supports. */
#include <stdio.h>

#include "cli/messages/messages.h"
#include "cli/messages/print.h"
#include "cli/messages/quantities.h"
#include "cli/options/commands.h"
#include "cli/options/options.h"
#include "cli/reports/report.h"
#include "estimator/model/ops.h"
#include "estimator/training/target.h"
#include "executor/workload/workload.h"
#include "formats/base/text.h"
#include "formats/json/json.h"
#include "memplan/architecture.h"
#include "memplan/ranks/network.h"
#include "memplan/solver.h"
#include "memplan/workloads/own_device.h"

/* ---- searchers ---- */

static json_t *solvers_json(void)
{
    json_t *list = json_array();
    for (size_t k = 0; k < mp_solver_count(); k++) {
        const mp_solver *row = mp_solver_row(k);
        mp_json_append(&list, json_pack("{s:s, s:s, s:s}", "name", row->name, "summary", row->summary, "source", row->source));
    }
    return json_pack("{s:o}", "solvers", list);
}

int cmd_solvers(options *o)
{
    if (o->talk.json) return print_json("solvers", solvers_json());
    for (size_t k = 0; k < mp_solver_count(); k++) {
        const mp_solver *row = mp_solver_row(k);
        print("%-16s %s%s%s%s\n", row->name, row->summary, *row->source ? " (" : "", row->source, *row->source ? ")" : "");
    }
    return EXIT_DONE;
}

/* ---- devices ---- */

static json_t *links_json(void)
{
    json_t *list = json_array();
    for (size_t k = 0; k < mp_link_count(); k++) {
        const mp_link *l = mp_link_row(k);
        mp_json_append(&list,
                       json_pack("{s:s, s:s, s:f, s:f, s:f, s:b}", "name", l->name, "title", l->title, "out_bytes_per_second",
                                 l->out_bytes_per_second, "in_bytes_per_second", l->in_bytes_per_second, "latency_seconds",
                                 l->latency_seconds, "is_shared", (int)l->is_shared));
    }
    return list;
}

static json_t *networks_json(void)
{
    json_t *list = json_array();
    for (size_t k = 0; k < mp_fabric_count(); k++) {
        const mp_fabric *f = mp_fabric_row(k);
        mp_json_append(&list, json_pack("{s:s, s:s, s:i, s:f, s:f}", "name", f->name, "title", f->title, "devices", f->devices,
                                        "bytes_per_second", f->bytes_per_second, "latency_seconds", f->latency_seconds));
    }
    return list;
}

static json_t *devices_json(void)
{
    json_t *list = json_array();
    for (size_t k = 0; k < mp_device_count(); k++) {
        const mp_device *d = mp_device_row(k);
        mp_json_append(&list, json_pack("{s:s, s:s, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:s?}", "name", d->name,
                                        "title", d->title, "memory_bytes", (json_int_t)d->memory_bytes, "reserve_bytes",
                                        (json_int_t)d->reserve_bytes, "cache_bytes", (json_int_t)d->cache_bytes, "fp32_flops",
                                        d->fp32_flops, "tf32_flops", d->tf32_flops, "fp16_flops", d->fp16_flops, "bf16_flops",
                                        d->bf16_flops, "bytes_per_second", d->bytes_per_second, "launch_seconds",
                                        d->launch_seconds, "link", d->link));
    }
    return json_pack("{s:o, s:o, s:o}", "devices", list, "links", links_json(), "networks", networks_json());
}

int cmd_devices(options *o)
{
    if (o->talk.json) return print_json("devices", devices_json());
    print("%-8s %4s %5s %5s %6s %6s %6s %5s %-5s  %s\n", "device", "GiB", "less", "fp32", "tf32", "fp16", "bf16", "GB/s",
          "link", "what it is");
    for (size_t k = 0; k < mp_device_count(); k++) {
        const mp_device *d = mp_device_row(k);
        print("%-8s %4.0f %5.2f %5.1f %6.1f %6.1f %6.1f %5.0f %-5s  %s\n", d->name, (double)d->memory_bytes / (1 << 30),
              (double)d->reserve_bytes / (1 << 30), d->fp32_flops / 1e12, d->tf32_flops / 1e12, d->fp16_flops / 1e12,
              d->bf16_flops / 1e12, d->bytes_per_second / 1e9, d->link, d->title);
    }
    puts("\nTFLOP/s of products by type, as data sheets have them; case does not count.\n"
         "less: the reserve, what context, libraries and allocator take (--reserve).\n"
         "link: to the host's memory, for copies (--offload).\n"
         "A card that is like one of them: --device a100,memory=40GiB,bandwidth=1555\n"
         "(also fp32, tf32, fp16 and bf16 in TFLOP/s, launch in microseconds, reserve),\n"
         "or --device mycard.json, a file that says so (docs/reference/formats.md).\n"
         "cpu stands in for whatever runs memplan: times are those of eight such cores,\n"
         "until 'memplan profile' has measured the machine at hand.");
    putchar('\n');
    print("%-8s %5s %5s %5s  %s\n", "link", "out", "back", "us", "what it is");
    for (size_t k = 0; k < mp_link_count(); k++) {
        const mp_link *l = mp_link_row(k);
        print("%-8s %5.1f %5.1f %5.0f  %s%s\n", l->name, l->out_bytes_per_second / 1e9, l->in_bytes_per_second / 1e9,
              l->latency_seconds * 1e6, l->title, l->is_shared ? "; the ways take turns" : "");
    }
    puts("\nGB/s of copies from the device and back, for --offload; --link takes one of these,\nor a rate like 24GB/s.\n");
    print("%-8s %7s %6s %5s  %s\n", "network", "devices", "GB/s", "us", "what it is");
    for (size_t k = 0; k < mp_fabric_count(); k++) {
        const mp_fabric *f = mp_fabric_row(k);
        print("%-8s %7s %6.1f %5.0f  %s\n", f->name, f->devices ? count_text(f->devices) : "between", f->bytes_per_second / 1e9,
              f->latency_seconds * 1e6, f->title);
    }
    puts("\nWhat large collectives reach per device, within a node of so many devices or\nbetween nodes; --network takes one "
         "of each: nvlink4+ib400.");
    return EXIT_DONE;
}

/* ---- networks known by name ---- */

static json_t *models_json(const int64_t *parameters)
{
    json_t *list = json_array();
    for (size_t k = 0; k < mp_architecture_count(); k++) {
        const mp_architecture *a = mp_architecture_row(k);
        json_t *row = json_pack("{s:s, s:s, s:I}", "name", a->name, "title", a->title, "parameters", (json_int_t)parameters[k]);
        mp_json_set(&row, "sizes",
                    json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "layers", (json_int_t)a->layers,
                              "width", (json_int_t)a->width, "feed_forward", (json_int_t)a->feed_forward, "heads",
                              (json_int_t)a->heads, "key_value_heads", (json_int_t)a->key_value_heads, "head_width",
                              (json_int_t)a->head_width, "vocabulary", (json_int_t)a->vocabulary, "sequence",
                              (json_int_t)a->sequence, "patch", (json_int_t)a->patch, "experts", (json_int_t)a->experts,
                              "experts_per_token", (json_int_t)a->experts_per_token));
        mp_json_set(&row, "dropout", json_real(a->dropout));
        mp_json_append(&list, row);
    }
    return json_pack("{s:o}", "models", list);
}

static void print_models(const int64_t *parameters)
{
    print("%-14s %17s %6s %6s %7s %8s %7s %8s  %s\n", "name", "parameters", "layers", "width", "inner", "heads", "words",
          "sequence", "what it is");
    for (size_t k = 0; k < mp_architecture_count(); k++) {
        const mp_architecture *a = mp_architecture_row(k);
        const bool shared = a->key_value_heads != a->heads;
        print("%-14s %17s %6lld %6lld %7lld %8s %7lld %8lld  %s%s\n", a->name, count_text(parameters[k]), (long long)a->layers,
              (long long)a->width, (long long)a->feed_forward,
              mp_text(shared ? "%lld/%lld" : "%lld", (long long)a->heads, (long long)a->key_value_heads),
              (long long)a->vocabulary, (long long)a->sequence, a->title,
              a->experts ? mp_text(", %lld of %lld experts", (long long)a->experts_per_token, (long long)a->experts) : "");
    }
    puts("\nA name stands wherever a command takes a model; case, spaces and dashes do not\n"
         "matter: memplan estimate llama3-8b --batch 1 --dtype bf16. --dim changes a size:\n"
         "layers, width, feed-forward (inner), heads, key-value-heads (behind the slash),\n"
         "head-width, vocabulary (words), sequence, patch, experts, experts-per-token.");
}

int cmd_models(options *o)
{
    mp_error err = {0};
    MP_OWNED int64_t *parameters = mp_alloc(mp_architecture_count(), sizeof *parameters);
    mp_status st = parameters ? MP_OK : MP_FAIL(&err, MP_NOMEM, "no memory for the list");
    for (size_t k = 0; st == MP_OK && k < mp_architecture_count(); k++)
        st = mp_architecture_parameters(mp_architecture_row(k), &parameters[k], &err);
    if (st != MP_OK) return output_failed(&err);
    if (o->talk.json) return print_json("models", models_json(parameters));
    print_models(parameters);
    return EXIT_DONE;
}

/* ---- operators ---- */

/* Returns "both", "forward" or "no": the passes of an operator that a backend supports. The result does not cover data types
 * and modes: whether these are supported depends on the attributes of the operator in a model. */
static const char *runs_text(const mp_backend *backend, const mp_op *op)
{
    const mp_operator any = {.kind = op->name, .domain = op->domain, .op = op};
    const mp_kernel *kernel = backend->kernel(backend, &any);
    return !kernel ? "no" : kernel->backward ? "both" : "forward";
}

static const char *const gradients[] = {
    [MP_GRADIENT_NONE] = "none needed", [MP_GRADIENT_REFUSED] = "refused", [MP_GRADIENT_VIEW] = "view",
    [MP_GRADIENT_ALIAS] = "no node",    [MP_GRADIENT_ONE] = "one node",    [MP_GRADIENT_SPLIT] = "a node per input"};

static json_t *ops_json(const mp_backend *backend)
{
    json_t *list = json_array();
    for (size_t k = 0; k < mp_op_count(); k++) {
        const mp_op *op = mp_op_row(k);
        mp_json_append(&list, json_pack("{s:s, s:s, s:i, s:s, s:s?, s:b, s:b, s:b, s:b}", "name", op->name, "domain",
                                        *op->domain ? op->domain : "ai.onnx", "since", op->since, "backward",
                                        gradients[op->gradient], "runs", backend ? runs_text(backend, op) : NULL, "product",
                                        op->flops != NULL, "folded", op->fold != NULL, "in_place",
                                        (op->traits & MP_TRAIT_IN_PLACE) != 0, "random", (op->traits & MP_TRAIT_RANDOM) != 0));
    }
    return json_pack("{s:s?, s:o}", "backend", backend ? backend->name : NULL, "operators", list);
}

int cmd_ops(options *o)
{
    const mp_backend *backend;
    mp_own_device device;
    mp_error err = {0};
    if (mp_workload_device(&o->model, &backend, &device, &err) != MP_OK) return input_failed(&err);
    if (o->talk.json) return print_json("ops", ops_json(backend));
    print("%-30s %-14s %5s  %-17s %s%s\n", "operator", "domain", "since", "backward",
          backend ? mp_text("%-9s", backend->name) : "", "notes");
    for (size_t k = 0; k < mp_op_count(); k++) {
        const mp_op *op = mp_op_row(k);
        char line[160];
        int n = snprintf(line, sizeof line, "%-30s %-14s %5d  %-17s %s%s%s%s%s", op->name, *op->domain ? op->domain : "ai.onnx",
                         op->since, gradients[op->gradient], backend ? mp_text("%-9s", runs_text(backend, op)) : "",
                         op->flops ? "product " : "", op->fold ? "folded " : "",
                         op->traits & MP_TRAIT_IN_PLACE ? "in place " : "", op->traits & MP_TRAIT_RANDOM ? "random " : "");
        while (n > 0 && n < (int)sizeof line && line[n - 1] == ' ') line[--n] = 0;
        print("%s\n", line);
    }
    return EXIT_DONE;
}
