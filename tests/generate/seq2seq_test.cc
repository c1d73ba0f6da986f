// Answers of models with an encoder and a decoder against transformers' generate()
// (tools/golden/golden_seq2seq.py): the likeliest tokens, what is forced, rows that come and go.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/errors.h"
#include "hone/generate.h"
#include "hone/hub.h"
#include "models/seq2seq.h"

namespace hone::test {
namespace {

struct Asked {
  explicit Asked(const std::string& name)
      : golden(name, kSeq2Seq), folder(golden.folder.string()), model(load_model(folder, Precision::fp32)) {
    for (const Pair& pair : pairs_of(golden, *model->seq2seq_lm()))
      sources.emplace_back(pair.source.begin(), pair.source.end());
    config = generation_defaults(folder, model->vocab_size());
    config.max_new_tokens = 12;
  }
  // Without what the answer is begun with.
  std::vector<std::int32_t> expected(std::size_t row) const {
    const std::vector<std::int64_t> ids = values_of(golden["answer." + std::to_string(row)]);
    return {ids.begin() + 1, ids.end()};
  }
  Golden golden;
  std::string folder;
  std::unique_ptr<Model> model;
  std::vector<std::vector<std::int32_t>> sources;
  GenerateConfig config;
};

TEST(Seq2SeqGenerator, GreedyIdsEqualTransformers) {
  for (const std::string& name : golden_names(kSeq2Seq)) {
    const Asked asked(name);
    Generator generator(*asked.model, load_tokenizer("bytes"));
    const auto answers = generator.generate(asked.sources, asked.config);
    for (std::size_t row = 0; row < answers.size(); ++row) {
      EXPECT_EQ(answers[row].ids, asked.expected(row)) << name << " row " << row;
      const bool ended = answers[row].ids.size() < 12 || asked.config.forced_eos_token_id;
      EXPECT_EQ(answers[row].reason, ended ? FinishReason::eos : FinishReason::length) << name;
    }
  }
}

TEST(Seq2SeqGenerator, AnswersDoNotDependOnTheBatch) {
  Asked asked("t5-gated");
  Generator generator(*asked.model, load_tokenizer("bytes"));
  for (int i = 0; i < 4; ++i) asked.sources.push_back({7 + i, 20, 1});
  asked.config.temperature = 0.9;
  asked.config.eos_token_id = {9, 18, 25};  // rows end at different times
  asked.config.batch_size = 1;
  const auto alone = generator.generate(asked.sources, asked.config);
  asked.config.batch_size = 3;
  const auto together = generator.generate(asked.sources, asked.config);
  for (std::size_t i = 0; i < alone.size(); ++i) EXPECT_EQ(alone[i].ids, together[i].ids) << i;
}

TEST(Seq2SeqGenerator, FirstAndLastTokensAreForced) {
  Asked asked("t5-gated");
  Generator generator(*asked.model, load_tokenizer("bytes"));
  asked.config.forced_bos_token_id = 33, asked.config.forced_eos_token_id = 1;
  for (const Generated& answer : generator.generate(asked.sources, asked.config)) {
    EXPECT_EQ(answer.ids.front(), 33);
    EXPECT_EQ(answer.ids.back(), 1);
  }
  asked.config.forced_bos_token_id = 64;
  EXPECT_HONE_ERROR(generator.generate(asked.sources, asked.config), config,
                    "forced_bos_token_id: got 64, expected 0 to 63, the model's ids");
}

// It counts what an answer is begun with, and not the source.
TEST(Seq2SeqGenerator, MaxLengthIsOfTheAnswer) {
  Asked asked("t5-gated");
  Generator generator(*asked.model, load_tokenizer("bytes"));
  asked.config.max_length = 5;
  for (const Generated& answer : generator.generate(asked.sources, asked.config)) EXPECT_EQ(answer.ids.size(), 4u);
}

}  // namespace
}  // namespace hone::test
