// Which way is better, of every metric that hone's evaluations give.
#include <gtest/gtest.h>

#include "hone/evaluation.h"
#include "hone/registry.h"

namespace hone {
namespace {

TEST(GreaterIsBetter, IsSaidForEveryKnownMetric) {
  std::string rising, falling;
  for (const auto& entry : registries().evals.entries()) {
    const auto evaluation = registries().evals.make(entry.name, *entry.options());
    for (const std::string& name : evaluation->names())
      (evaluation->greater_is_better(name) ? rising : falling) += " " + entry.name + "/" + name;
  }
  EXPECT_EQ(rising,
            " question_answering/exact_match question_answering/f1 question_answering/answered_exact_match"
            " question_answering/answered_f1 question_answering/unanswered_exact_match question_answering/questions"
            " bleu/bleu bleu/bleu_precision_1 bleu/bleu_precision_2 bleu/bleu_precision_3 bleu/bleu_precision_4"
            " bleu/bleu_brevity_penalty bleu/bleu_length_ratio bleu/answer_length bleu/prompts chrf/chrf"
            " chrf/answer_length chrf/prompts"
            " classification/accuracy classification/f1_macro classification/documents exact_match/exact_match"
            " exact_match/prompts multi_label/accuracy multi_label/f1_micro multi_label/f1_macro"
            " multi_label/documents multiple_choice/accuracy multiple_choice/accuracy_per_character"
            " multiple_choice/accuracy_per_token multiple_choice/questions perplexity/accuracy"
            " preference/accuracy preference/accuracy_per_token ranking/accuracy@1 ranking/mrr@10 ranking/ndcg@10"
            " ranking/map regression/pearson regression/r2 reward/accuracy"
            " reward/margin rouge/rouge1 rouge/rouge2 rouge/rougeL rouge/rougeLsum rouge/answer_length rouge/prompts"
            " ter/answer_length ter/prompts"
            " token_classification/accuracy token_classification/precision token_classification/recall"
            " token_classification/f1 token_classification/tokens process_reward/accuracy process_reward/precision"
            " process_reward/recall process_reward/f1 process_reward/tokens");
  EXPECT_EQ(falling,
            " question_answering/loss classification/loss multi_label/loss perplexity/loss perplexity/perplexity "
            "perplexity/tokens "
            "preference/logps/chosen preference/logps/rejected preference/pairs regression/loss regression/mae "
            "regression/documents reward/loss reward/mean_reward reward/pairs ter/ter token_classification/loss "
            "process_reward/loss");
}

}  // namespace
}  // namespace hone
