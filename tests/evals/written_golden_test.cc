// ROUGE, BLEU, chrF and Porter's stems against rouge_score, sacrebleu and NLTK (tools/golden/golden_written.py), to the
// digits of doubles.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "evals/bleu_score.h"
#include "evals/chrf_score.h"
#include "evals/porter.h"
#include "evals/rouge_score.h"
#include "evals/ter_score.h"
#include "hone/config_read.h"
#include "hone/evaluation.h"
#include "hone/registry.h"

namespace hone::evals {
namespace {

using nlohmann::json;

constexpr double kDigits = 1e-13;  // of numbers up to 1; sums of logarithms are made in another order

const json& golden() {
  static const json read = [] {
    std::ifstream file(HONE_SOURCE_DIR "/tests/golden/evals/written.json");
    return json::parse(file);
  }();
  return read;
}

template <class T>
T named(const std::string& name) {
  for (const auto& [value, text] : config::enum_names<T>)
    if (text == name) return value;
  ADD_FAILURE() << name;
  return {};
}

std::string signature(const std::string& metric, const json& options) {
  registries();  // fills the catalogues that are read from
  Problems problems;
  config::Choice<Evaluation> choice;
  json whole = options;
  whole["type"] = metric;
  config::Values<config::Choice<Evaluation>>::read(config::parse_json(whole.dump(), "test", problems), choice,
                                                   {problems, ""});
  problems.raise("test");
  return registries().evals.make(choice)->signature();
}

// Without the number of references and the version.
std::string ours(std::string sacrebleus) {
  sacrebleus = sacrebleus.substr(sacrebleus.find('|') + 1);
  return sacrebleus.substr(0, sacrebleus.find("|version"));
}

TEST(Written, StemsEqualNltk) {
  for (const json& one : golden()["stems"]) EXPECT_EQ(porter_stem(one[0].get<std::string>()), one[1]) << one[0];
  EXPECT_GT(golden()["stems"].size(), 100u);
}

TEST(Written, RougeEqualsRougeScore) {
  for (const json& one : golden()["rouge"])
    for (const bool stemmed : {false, true}) {
      const RougeScores made =
          rouge_score(one["references"].get<std::vector<std::string>>(), one["answer"].get<std::string>(), stemmed);
      const json& expected = one[stemmed ? "rouge_stemmed" : "rouge"];
      const RougeScore* scores[] = {&made.one, &made.two, &made.longest, &made.longest_of_lines};
      for (std::size_t i = 0; i < 4; ++i) {
        EXPECT_NEAR(scores[i]->precision, expected[i][0].get<double>(), kDigits) << i << " of " << one["answer"];
        EXPECT_NEAR(scores[i]->recall, expected[i][1].get<double>(), kDigits) << i << " of " << one["answer"];
        EXPECT_NEAR(scores[i]->f, expected[i][2].get<double>(), kDigits) << i << " of " << one["answer"];
      }
    }
}

TEST(Written, BleuEqualsSacrebleu) {
  for (const json& set : golden()["sets"])
    for (const json& one : set["bleu"]) {
      SCOPED_TRACE(one["options"].dump());
      const json& options = one["options"];
      const auto how = named<BleuTokens>(options.value("tokenize", "13a"));
      const auto smoothing = named<BleuSmoothing>(options.value("smooth_method", "exp"));
      const double usual = smoothing == BleuSmoothing::floor ? 0.1 : 1;
      BleuCounts all;
      for (const json& pair : set["cases"]) {
        const BleuCounts counts =
            bleu_counts(pair["answer"].get<std::string>(), pair["references"].get<std::vector<std::string>>(), how,
                        options.value("lowercase", false));
        for (std::size_t n = 0; n < kBleuOrder; ++n) all.hits[n] += counts.hits[n], all.all[n] += counts.all[n];
        all.answer += counts.answer, all.reference += counts.reference;
      }
      const BleuScore made = bleu_score(all, smoothing, options.value("smooth_value", usual),
                                        options.value("effective_order", false));
      EXPECT_EQ(all.answer, one["answer"].get<double>());
      EXPECT_EQ(all.reference, one["reference"].get<double>());
      EXPECT_NEAR(made.score, one["score"].get<double>(), 100 * kDigits);
      EXPECT_NEAR(made.brevity_penalty, one["bp"].get<double>(), kDigits);
      for (std::size_t n = 0; n < kBleuOrder; ++n)
        EXPECT_NEAR(made.precisions[n], one["precisions"][n].get<double>(), 100 * kDigits) << n;
      EXPECT_EQ(signature("bleu", options), ours(one["signature"]));
    }
}

TEST(Written, ChrfEqualsSacrebleu) {
  for (const json& set : golden()["sets"])
    for (const json& one : set["chrf"]) {
      SCOPED_TRACE(one["options"].dump());
      ChrfOptions options;
      options.char_order = one["options"].value("char_order", 6);
      options.word_order = one["options"].value("word_order", 0);
      options.beta = one["options"].value("beta", 2);
      options.lowercase = one["options"].value("lowercase", false);
      options.whitespace = one["options"].value("whitespace", false);
      std::vector<double> all;
      for (const json& pair : set["cases"]) {
        const std::vector<double> counts = chrf_counts(
            pair["answer"].get<std::string>(), pair["references"].get<std::vector<std::string>>(), options);
        all.resize(counts.size());
        for (std::size_t i = 0; i < counts.size(); ++i) all[i] += counts[i];
      }
      EXPECT_NEAR(chrf_score(all, options), one["score"].get<double>(), 100 * kDigits);
      EXPECT_EQ(signature("chrf", one["options"]), ours(one["signature"]));
    }
}

TEST(Written, TerEqualsSacrebleu) {
  for (const json& set : golden()["sets"])
    for (const json& one : set["ter"]) {
      SCOPED_TRACE(one["options"].dump());
      const auto flag = [&](const char* name) { return one["options"].value(name, false); };
      const TerOptions options{flag("normalized"), flag("no_punct"), flag("case_sensitive")};
      TerCounts all;
      for (const json& pair : set["cases"]) {
        const TerCounts counts = ter_counts(pair["answer"].get<std::string>(),
                                            pair["references"].get<std::vector<std::string>>(), options);
        all.edits += counts.edits, all.reference += counts.reference;
      }
      EXPECT_EQ(all.edits, one["edits"].get<double>());
      EXPECT_NEAR(all.reference, one["reference"].get<double>(), 1e-9);
      EXPECT_NEAR(ter_score(all), one["score"].get<double>(), 100 * kDigits);
      EXPECT_EQ(signature("ter", one["options"]), ours(one["signature"]));
    }
  EXPECT_FALSE(registries().evals.make("ter", *registries().evals.options("ter"))->greater_is_better("ter"));
}

}  // namespace
}  // namespace hone::evals
