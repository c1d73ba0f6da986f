// Answers that are written for an evaluation: as its options and the model's folder say, which document is asked what,
// and who shares them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/errors.h"
#include "hone/evaluation.h"
#include "hone/generate.h"
#include "hone/hub.h"
#include "hone/registry.h"
#include "models/seq2seq.h"

namespace hone::test {
namespace {

// Nothing but references, by the number of the record.
class References final : public Dataset {
 public:
  std::vector<std::vector<std::string>> texts;
  const std::vector<std::string>* references(std::int64_t record) const override {
    return texts.empty() ? nullptr : &texts.at(static_cast<std::size_t>(record));
  }
  std::int64_t rows() const override { return 0; }
  std::int64_t epoch_rows() const override { return 0; }
  std::int64_t row_at(std::int64_t, std::uint64_t, bool) const override { return 0; }
  HostRow row(std::int64_t) const override { return {}; }
  const DataReport& report() const override { return report_; }
  std::pair<std::shared_ptr<const Dataset>, std::shared_ptr<const Dataset>> split(double,
                                                                                  std::uint64_t) const override {
    return {};
  }
  std::string record_name(std::int64_t) const override { return ""; }
  const std::vector<std::string>& labels() const override { return labels_; }
  std::string fingerprint() const override { return ""; }

 private:
  DataReport report_;
  std::vector<std::string> labels_;
};

std::unique_ptr<Evaluation> evaluation(const std::string& section) {
  registries();  // fills the catalogues that are read from
  Problems problems;
  config::Choice<Evaluation> choice;
  config::Values<config::Choice<Evaluation>>::read(config::parse_yaml(section, "test", problems), choice,
                                                   {problems, ""});
  problems.raise("test");
  return registries().evals.make(choice);
}

class WrittenByT5 : public testing::Test {
 protected:
  WrittenByT5() {
    for (std::size_t i = 0; i < 3; ++i) {
      Pair pair{.source = {}, .target = {0, 40, 41}, .labels = {40, 41, 1}};
      for (std::size_t t = 0; t < 5 + 3 * i; ++t)
        pair.source.push_back(3 + static_cast<std::int64_t>((7 * t + 11 * i) % 57));
      sources_.emplace_back(pair.source.begin(), pair.source.end());
      pairs_.push_back(pair);
    }
    batch_ = batch_of(pairs_, /*packed=*/true);
    for (Doc& doc : batch_.docs) doc.record = doc.group;
    folder_.max_new_tokens = 12, folder_.eos_token_id = {1};
  }
  std::vector<Generated> answers(const GenerateConfig& config, std::vector<std::uint64_t> seeds = {}) {
    return Generator(*model_, tokenizer_).generate(sources_, config, {}, {}, seeds);
  }
  Metrics measured(const std::string& section) {
    const at::NoGradGuard no_grad;
    const auto made = evaluation(section);
    const EvaluationSet set{set_, tokenizer_, folder_, written_};
    Pass pass(batch_);
    const Output output = model_->forward(batch_, pass);
    return made->result(made->measure_in(set, *model_, output, batch_, pass));
  }
  // The metric writes what `config` does, and what it would write without the option is something else.
  void expect_written(const std::string& options, const GenerateConfig& config,
                      const std::vector<std::uint64_t>& seeds = {}) {
    const std::vector<Generated> expected = answers(config, seeds);
    set_.texts.clear();
    double tokens = 0;
    for (const Generated& one : expected) set_.texts.push_back({one.text}), tokens += double(one.ids.size());
    written_.clear();
    const Metrics made = measured("{type: chrf, whitespace: true" + options + "}");
    EXPECT_DOUBLE_EQ(made.at("chrf"), 100) << options;
    EXPECT_DOUBLE_EQ(made.at("answer_length"), tokens / 3) << options;
    EXPECT_LT(measured("{type: chrf, whitespace: true, max_new_tokens: 1}").at("chrf"), 99) << options;
    if (!options.empty()) {
      EXPECT_LT(measured("{type: chrf, whitespace: true}").at("chrf"), 99.9) << options;
    }
  }

  Golden golden_{"t5-gated", kSeq2Seq};
  std::unique_ptr<Model> model_ = load_model(golden_.folder.string(), Precision::fp32);
  std::shared_ptr<const Tokenizer> tokenizer_ = load_tokenizer("bytes");
  std::vector<Pair> pairs_;
  std::vector<std::vector<std::int32_t>> sources_;
  Batch batch_;
  GenerateConfig folder_;
  References set_;
  std::map<std::string, std::vector<Generated>> written_;
};

TEST_F(WrittenByT5, AsOptionsSayOrElseTheFolder) {
  GenerateConfig config = folder_;
  expect_written("", config);
  config.max_new_tokens = 7;
  expect_written(", max_new_tokens: 7", config);
  config = folder_, config.num_beams = 4;
  expect_written(", num_beams: 4", config);
  config.length_penalty = -3;
  expect_written(", num_beams: 4, length_penalty: -3", config);
  config = folder_, config.no_repeat_ngram_size = 1;
  expect_written(", no_repeat_ngram_size: 1", config);
  config = folder_, config.repetition_penalty = 5;
  expect_written(", repetition_penalty: 5", config);
  config = folder_, config.forced_bos_token_id = 50;
  expect_written(", forced_bos_token_id: 50", config);
  folder_.eos_token_id = {answers(folder_)[0].ids[1]};
  config = folder_, config.min_new_tokens = 9;
  expect_written(", min_new_tokens: 9", config);
  config = folder_, config.stop = {answers(folder_)[2].text.substr(1, 1)};
  expect_written(", stop: " + nlohmann::json({config.stop[0]}).dump(), config);
  folder_.eos_token_id = {1};
  config = folder_, config.regex = "[0-9]{3,9}";
  expect_written(", regex: '[0-9]{3,9}'", config);
  config = folder_, config.json_schema = R"({"enum": [123, 4567]})";
  expect_written(R"(, json_schema: '{"enum": [123, 4567]}')", config);
}

// Nothing is, unless a temperature is asked for; then each record has a seed of its own.
TEST_F(WrittenByT5, AreDrawnByTheNumberOfTheRecord) {
  folder_.temperature = 1.5;
  GenerateConfig config = folder_;
  config.temperature = 0;
  expect_written("", config);
  config.temperature = 2;
  expect_written(", temperature: 2, seed: 5", config, {5, 6, 7});
  config.top_k = 3;
  expect_written(", temperature: 2, seed: 5, top_k: 3", config, {5, 6, 7});
  config.top_k = 0, config.top_p = 0.4;
  expect_written(", temperature: 2, seed: 5, top_p: 0.4", config, {5, 6, 7});
}

TEST_F(WrittenByT5, AreSharedByThoseWhoAskAlike) {
  measured("{type: rouge, max_new_tokens: 5}");
  measured("{type: bleu, max_new_tokens: 5, lowercase: true}");
  EXPECT_EQ(written_.size(), 1u);
  measured("{type: chrf, max_new_tokens: 6}");
  EXPECT_EQ(written_.size(), 2u);
}

// Where records keep no text it is what the targets' tokens say.
TEST_F(WrittenByT5, TokensAreReferencesWhereThereIsNoText) {
  const std::vector<std::int32_t> ids = answers(folder_)[1].ids, some(ids.begin(), ids.begin() + 2);
  for (Pair& pair : pairs_) pair.target = {0, some[0], some[1]}, pair.labels = {some[0], some[1], 1};
  batch_ = batch_of(pairs_, /*packed=*/false);
  for (Doc& doc : batch_.docs) doc.record = doc.group;
  const Metrics made = measured("{type: chrf}");
  EXPECT_EQ(made.at("prompts"), 3);
  EXPECT_GT(made.at("chrf"), 0);
  set_.texts.assign(3, {tokenizer_->decode({some[0], some[1], 1})});
  EXPECT_EQ(measured("{type: chrf}").at("chrf"), made.at("chrf"));
  set_.texts.assign(3, {"another"});
  EXPECT_NE(measured("{type: chrf}").at("chrf"), made.at("chrf"));
}

// Of a conversation the last answer is written, behind all that stands before it.
TEST(WrittenByLlama, TheLastAnswerOfADocument) {
  const at::NoGradGuard no_grad;
  const Golden golden("llama");
  const auto model = load_model(golden.folder.string(), Precision::fp32);
  const std::shared_ptr<const Tokenizer> tokenizer = load_tokenizer("bytes");
  const std::vector<std::int64_t> ids{9, 10, 11, 40, 41, 12, 13, 42, 43};
  Batch batch = make_batch(at::tensor(ids, at::kLong).unsqueeze(0),
                           at::tensor({-100, -100, -100, 40, 41, -100, -100, 42, 43}, at::kLong).unsqueeze(0),
                           at::ones({1, 9}, at::kLong));
  GenerateConfig config;
  config.max_new_tokens = 6;
  References set;
  set.texts = {{Generator(*model, tokenizer).generate({{9, 10, 11, 40, 41, 12, 13}}, config)[0].text}};
  std::map<std::string, std::vector<Generated>> written;
  const EvaluationSet of{set, tokenizer, config, written};
  Pass pass(batch);
  const auto chrf = evaluation("{type: chrf, whitespace: true}");
  const Metrics made = chrf->result(chrf->measure_in(of, *model, model->forward(batch, pass), batch, pass));
  EXPECT_EQ(made.at("prompts"), 1);
  EXPECT_DOUBLE_EQ(made.at("chrf"), 100);
  DataReport report;
  report.pieces = 3, report.without_prompt = 2;
  EXPECT_HONE_ERROR(chrf->check_data(report), data, "evaluation chrf: 2 of 3 documents have no prompt");
  const EvaluationSet without{set, nullptr, config, written};
  EXPECT_HONE_ERROR(chrf->measure_in(without, *model, model->forward(batch, pass), batch, pass), config,
                    "evaluation chrf: there is no tokenizer");
}

}  // namespace
}  // namespace hone::test
