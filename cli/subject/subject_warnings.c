/* subject_warnings.c - says that a file is an inference graph, or leaves open how PyTorch runs it, and how to export one. */
#include "cli/subject/subject.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "cli/messages/messages.h"
#include "estimator/base/memory.h"

/* Adds "2 dropouts are switched off" to a list. */
static void add(char *text, size_t size, int n, const char *what, const char *is, const char *are)
{
    const size_t used = strlen(text);
    if (n) snprintf(text + used, size - used, "%s%d %s%s %s", used ? ", " : "", n, what, n > 1 ? "s" : "", n > 1 ? are : is);
}

void warn_of_inference_form(const char *path, const mp_inference_form *form, bool keeps)
{
    static atomic_flag said = ATOMIC_FLAG_INIT;
    const int norms = keeps ? 0 : form->norms;
    char found[512] = "";
    add(found, sizeof found, form->folded_norms, "batch normalization", "is folded into another operator",
        "are folded into other operators");
    add(found, sizeof found, form->dropouts, "dropout", "is switched off", "are switched off");
    add(found, sizeof found, norms, "batch normalization",
        "is in inference mode and trains by the batch's statistics (--keep-inference-norms: by the running ones)",
        "are in inference mode and train by the batch's statistics (--keep-inference-norms: by the running ones)");
    if (!*found || atomic_flag_test_and_set(&said)) return;
    if (form->folded_norms || form->dropouts)
        complain("%s: warning: an inference graph, so a training step is larger than what is said of it: %s; export it with "
                 "dynamo=False, training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False",
                 path, found);
    else
        complain("%s: warning: %s", path, found);
}

/* "12 Gelu, 3 Swish": the kinds of guessed formulas. */
static mp_status list_formulas(const mp_model *model, char *text, size_t size, mp_error *err)
{
    mp_status st = MP_OK;
    bool *counted = mp_alloc(model->n_operators, sizeof *counted);
    MP_REQUIRE(counted, err, MP_NOMEM, "%zu operators", model->n_operators);
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
        const size_t used = strlen(text);
        snprintf(text + used, size - used, "%s%d %s", used ? ", " : "", n, first->kind);
    }
done:
    mp_free(counted);
    return st;
}

mp_status warn_of_guesses(const char *path, const mp_model *model, bool lacks_dropout, mp_error *err)
{
    static atomic_flag said = ATOMIC_FLAG_INIT;
    const mp_guesses guesses = mp_model_guesses(model);
    char what[3][256] = {"", "", ""}, list[160] = "";
    int n = 0;
    if (guesses.formulas) {
        MP_CHECK(list_formulas(model, list, sizeof list, err));
        snprintf(what[n++], sizeof *what, "%s %s, not written out (the newer exporter, dynamo=True, says which)", list,
                 guesses.formulas > 1 ? "as one operator each" : "as one operator");
    }
    if (guesses.loop_operators)
        snprintf(what[n++], sizeof *what, "%d operators of unrolled loops one by one (nn.EmbeddingBag is exported as a loop)",
                 guesses.loop_operators);
    if (lacks_dropout)
        snprintf(what[n++], sizeof *what, "no dropout, of which the file has none (an export in evaluation loses it)");
    if (!n || atomic_flag_test_and_set(&said)) return MP_OK;
    complain("%s: warning: how PyTorch runs this, and what it keeps, is guessed where the file does not say it: %s%s%s%s%s",
             path, what[0], n > 1 ? "; " : "", what[1], n > 2 ? "; " : "", what[2]);
    return MP_OK;
}
