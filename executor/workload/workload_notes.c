/* workload_notes.c - notes that a model file was exported for inference, or that it does not show how PyTorch runs the network.
 * Each note says how to export the file correctly. */
#include "executor/workload/workload.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "estimator/base/memory.h"
#include "estimator/training/accuracy.h"
#include "formats/base/text.h"

void mp_workload_note(mp_workload *w, mp_note_kind kind, const char *format, ...)
{
    mp_workload_details *d = w->details;
    char text[MP_TEXT_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    const char *kept = mp_pool_text(d->pool, text, strlen(text));
    if (!kept || !mp_grow(&w->notes, &d->notes_capacity, w->n_notes + 1, sizeof *w->notes)) {
        d->lacks_notes = true;
        return;
    }
    w->notes[w->n_notes++] = (mp_note){.kind = kind, .text = kept};
}

void mp_note_accuracy(mp_workload *w, const mp_spending *spending)
{
    w->details->spending = *spending;
    if (!mp_accuracy_tell(spending, mp_mesh_devices(&w->ranks.mesh), w->details->accuracy))
        mp_workload_note(w, MP_NOTE_ACCURACY, "%s: %s", w->path, w->details->accuracy);
}

const char *mp_workload_accuracy(const mp_workload *w)
{
    return w->details->accuracy;
}

void mp_note_version(mp_workload *w)
{
    enum { KNOWN = 28 }; /* version of ONNX's own operator set in onnx 1.23 */
    for (size_t k = 0; k < w->model->n_operators; k++)
        if (!*w->model->operators[k].domain && w->model->operators[k].version > KNOWN) {
            mp_workload_note(
                w, MP_NOTE_VERSION,
                "%s: warning: the file uses operator set %d; its operators are read as in set %d, the newest known", w->path,
                w->model->operators[k].version, KNOWN);
            return;
        }
}

/* Appends an entry such as "2 dropouts are switched off" to a list in words, and returns it. If n is 0, returns the list
 * unchanged. */
static const char *with(const char *list, int n, const char *what, const char *is, const char *are)
{
    return n ? mp_text("%s%s%d %s%s %s", list, *list ? ", " : "", n, what, n > 1 ? "s" : "", n > 1 ? are : is) : list;
}

void mp_note_inference_form(mp_workload *w, bool keeps_inference_norms)
{
    const mp_inference_form *form = &w->details->inference;
    const int norms = keeps_inference_norms ? 0 : form->norms;
    const char *found = with("", form->folded_norms, "batch normalization", "is folded into another operator",
                             "are folded into other operators");
    found = with(found, form->dropouts, "dropout", "is switched off", "are switched off");
    found = with(found, norms, "batch normalization",
                 "is in inference mode and trains with batch statistics (--keep-inference-norms: with running statistics)",
                 "are in inference mode and train with batch statistics (--keep-inference-norms: with running statistics)");
    if (!*found) return;
    if (form->folded_norms || form->dropouts)
        mp_workload_note(
            w, MP_NOTE_INFERENCE,
            "%s: warning: this is an inference graph, so training needs more memory than stated: %s; export it with "
            "dynamo=False, training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False",
            w->path, found);
    else
        mp_workload_note(w, MP_NOTE_INFERENCE, "%s: warning: %s", w->path, found);
}

/* Returns the text "2 tensors of 96 elements (val_0, val_1)": the number of tensors, the sum of their elements, and the first
 * names. */
static const char *counted(const mp_doubt *doubt, const char *what)
{
    const char *elements = doubt->elements ? mp_text(" of %lld elements", (long long)doubt->elements) : "";
    return mp_text("%d %s%s%s (%s)", doubt->n, what, doubt->n > 1 ? "s" : "", elements, doubt->names);
}

void mp_note_weights(mp_workload *w)
{
    const mp_model *model = w->model;
    static const struct {
        const char *what, *sentence;
    } rows[MP_N_DOUBTS] = {
        [MP_DOUBT_UNSIGNED] = {"tensor", "computed by the exporter: the file does not mark parameters and buffers, so memplan "
                                         "guesses by name and use; export with opset_version=18 or later"},
        [MP_DOUBT_SHARED] = {"parameter", "read again by other operators: the exporter may have merged equal tensors, which "
                                          "count once; export with optimize=False"},
        [MP_DOUBT_FOLDED] = {"tensor", "named by the exporter may be parameters or results of them, so the number of "
                                       "parameters may be wrong; export with do_constant_folding=False"},
        [MP_DOUBT_RESIZED] = {"tensor", "computed by the exporter from parameters that may have another size, as weight "
                                        "normalization and slices do: the number of parameters may be wrong; export with "
                                        "optimize=False"},
        [MP_DOUBT_MISSING] = {"parameter",
                              "of the exported program not in the file: the exporter merges equal or tied tensors and "
                              "drops unused ones; export with optimize=False"},
        [MP_DOUBT_COPIED] = {"transposed duplicate",
                             "of a tied parameter, counted and trained apart: the exporter stored it twice; "
                             "export with optimize=False, or do_constant_folding=False with dynamo=False"},
        [MP_DOUBT_ADOPTED] = {"constant", "trained: most weights of the file are no initializers; --freeze NAME leaves one as "
                                          "it is"},
        [MP_DOUBT_CONSTANT] = {"constant", "read as weights and not trained; --train NAME trains them"},
        [MP_DOUBT_INTEGER] = {"integer tensor", "read as weights and not trained; export the network before quantization"},
    };
    for (int k = 0; k < MP_N_DOUBTS; k++)
        if (model->doubts[k].n && rows[k].sentence)
            mp_workload_note(w, MP_NOTE_WEIGHTS, "%s: warning: %s %s", w->path, counted(&model->doubts[k], rows[k].what),
                             rows[k].sentence);
}

/* Returns a list of operators that were recognised by their formula, with numbers per kind: "12 Gelu, 3 Swish". */
static mp_status list_formulas(const mp_model *model, const char **text, mp_error *err)
{
    MP_OWNED bool *counted = mp_alloc(model->n_operators, sizeof *counted);
    MP_ENSURE(counted, err, MP_NOMEM, "%zu operators", model->n_operators);
    for (size_t k = 0; k < model->n_operators; k++) {
        const mp_operator *first = &model->operators[k];
        int n = 0;
        if (first->removed || first->guess != MP_GUESS_FORMULA || counted[k]) continue;
        for (size_t j = k; j < model->n_operators; j++) {
            const mp_operator *op = &model->operators[j];
            if (op->removed || op->guess != MP_GUESS_FORMULA || op->op != first->op) continue;
            counted[j] = true;
            n++;
        }
        *text = mp_text("%s%s%d %s", *text, **text ? ", " : "", n, first->kind);
    }
    return MP_OK;
}

/* Returns a warning that a file with attention may have lost its dropout. NULL: the file contains dropout, or another warning
 * mentions it. */
static const char *missing_dropout(const mp_inference_form *form)
{
    if (!form->has_dropout) return "no dropout (an export in evaluation mode loses it)";
    if (form->dropouts || form->drops_rows || !form->may_lose) return NULL;
    return "no dropout inside attention (dynamo=True loses it in scaled_dot_product_attention)";
}

/* Appends a clause to a list that semicolons separate, and returns the list. If the clause is NULL, returns the list
 * unchanged. */
static const char *listed(const char *list, const char *clause)
{
    return clause ? mp_text("%s%s%s", list, *list ? "; " : "", clause) : list;
}

/* Operators as which the exporters write several functions of PyTorch that save different values. */
static const struct ambiguous {
    const char *kind, *reduction; /* reduction: value of this attribute; NULL: any */
    bool is_recorded;             /* true if files of the newer exporter tell the functions apart */
    const char *assumption;
} ambiguous[] = {
    {"Einsum", NULL, false, "without contiguous copies of its operands (einsum may copy them before the product)"},
    {"ScatterND", "add", false, "as index_put (index_add also stores the rows that it adds)"},
    {"ReduceMax", NULL, true, "as amax (max(dim) stores indices only; dynamo=True records it)"},
    {"ReduceMin", NULL, true, "as amin (min(dim) stores indices only; dynamo=True records it)"},
};

/* Returns a clause about the operators of the file that a row of `ambiguous` describes. NULL: there are none. */
static const char *ambiguous_clause(const mp_model *model, const struct ambiguous *row)
{
    int n = 0;
    if (!model->is_foreign || (row->is_recorded && model->is_of_newer_exporter)) return NULL;
    for (size_t k = 0; k < model->n_operators; k++) {
        const mp_operator *op = &model->operators[k];
        if (op->removed || strcmp(op->kind, row->kind) != 0) continue;
        n += !row->reduction || !strcmp(mp_operator_text(op, "reduction", "none"), row->reduction);
    }
    return n ? mp_text("%d %s %s", n, row->kind, row->assumption) : NULL;
}

mp_status mp_note_guesses(mp_workload *w, mp_error *err)
{
    const mp_model *model = w->model;
    const mp_workload_details *d = w->details;
    /* the exporter drops the dropout of attention only, so only a file with attention may have lost its dropout */
    const bool has_attention = w->file && (d->attention.n + d->attention.n_missed > 0 || d->inference.has_softmax);
    const mp_guesses guesses = mp_model_guesses(model);
    const char *assumed = "", *list = "";
    if (guesses.formulas) {
        MP_CHECK(list_formulas(model, &list, err));
        assumed = listed(assumed,
                         mp_text("%s as one operator%s (dynamo=True records it)", list, guesses.formulas > 1 ? " each" : ""));
    }
    if (guesses.loop_operators)
        assumed = listed(assumed, mp_text("%d operators of unrolled loops one by one (nn.EmbeddingBag is exported as a loop)",
                                          guesses.loop_operators));
    for (size_t k = 0; k < sizeof ambiguous / sizeof *ambiguous; k++)
        assumed = listed(assumed, ambiguous_clause(model, &ambiguous[k]));
    if (model->doubts[MP_DOUBT_MERGED].n)
        assumed = listed(assumed, mp_text("%s run once, as the exporter merges equal calls (optimize=False keeps them)",
                                          counted(&model->doubts[MP_DOUBT_MERGED], "repeated call")));
    if (has_attention) assumed = listed(assumed, missing_dropout(&d->inference));
    /* only the newer exporter records classes */
    const bool may_be_transformers = model->is_of_transformers || (model->is_foreign && !model->is_of_newer_exporter);
    if (may_be_transformers && d->attention.n_masked)
        assumed = listed(assumed, "the batch has padding, so attention stores its mask (without padding, transformers stores "
                                  "neither a mask nor repeated key heads)");
    if (model->is_foreign && d->attention.n_unmasked)
        assumed = listed(assumed, "attention has no mask (if the program passes a boolean mask that hides nothing, PyTorch "
                                  "stores it)");
    if (model->is_foreign && d->attention.n + d->attention.n_missed && !model->is_of_newer_exporter)
        assumed = listed(assumed, "no .contiguous() around attention (dynamo=False loses it)");
    if (*assumed)
        mp_workload_note(w, MP_NOTE_GUESSES, "%s: warning: the file does not show all that PyTorch stores; memplan assumes: %s",
                         w->path, assumed);
    return MP_OK;
}
