// Runs that learn where answers stand: what must hold of them, on one rank and on two, with windows of long texts.
#include "hone/hub.h"
#include "train/together.h"

namespace hone {
namespace {

using test::values;

class QuestionRuns : public test::Together {
 protected:
  static constexpr const char* kBert =
      "{type: bert, hidden_size: 32, intermediate_size: 64, num_hidden_layers: 2, num_attention_heads: 4, "
      "max_position_embeddings: 514, hidden_dropout_prob: 0, attention_probs_dropout_prob: 0}";
  static constexpr const char* kDeberta =
      "{type: deberta-v2, hidden_size: 32, intermediate_size: 64, num_hidden_layers: 2, num_attention_heads: 4, "
      "max_position_embeddings: 514, hidden_dropout_prob: 0, attention_probs_dropout_prob: 0, relative_attention: "
      "true, "
      "position_buckets: 8, pos_att_type: c2p|p2c, share_att_key: true, norm_rel_ebd: layer_norm, "
      "position_biased_input: false}";
  static constexpr const char* kMpnet =
      "{type: mpnet, hidden_size: 32, intermediate_size: 64, num_hidden_layers: 2, num_attention_heads: 4, "
      "max_position_embeddings: 514, hidden_dropout_prob: 0, attention_probs_dropout_prob: 0}";
  static constexpr const char* kAlbert =
      "{type: albert, embedding_size: 16, hidden_size: 32, intermediate_size: 64, num_hidden_layers: 3, "
      "num_attention_heads: 4, max_position_embeddings: 514}";

  // Who saw what; a long one becomes windows, and one question has no answer.
  std::string questions(bool all_answered = false) {
    std::string lines;
    const auto add = [&](const std::string& question, const std::string& context, const std::string& answer) {
      nlohmann::json texts = nlohmann::json::array(), starts = texts;
      if (!answer.empty()) texts.push_back(answer), starts.push_back(context.find(answer));
      lines +=
          nlohmann::json{
              {"question", question}, {"context", context}, {"answers", {{"text", texts}, {"answer_start", starts}}}}
              .dump() +
          "\n";
    };
    const std::vector<std::string> names = {"Ada", "Bo", "Cy"}, places = {"Rome", "Oslo"};
    for (const std::string& name : names)
      for (const std::string& place : places) {
        add("Who?", name + " saw " + place + ".", name);
        add("What did " + name + " see?", name + " saw " + place + ".", place);
      }
    add("Who?", "Nobody was there, and nobody came. In the end there was Ada, in Rome, and with her were all others.",
        "Ada");
    if (!all_answered) add("What?", "Ada saw.", "");
    return folder_.write(all_answered ? "answered.jsonl" : "squad.jsonl", lines).string();
  }
  test::Overrides asked(const char* model, const test::Overrides& more = {}) {
    test::Overrides all{{"model", model},
                        {"tokenizer", "tests/golden/data/questions/wordpiece"},
                        {"data.train", questions()},
                        {"data.eval", "{}"},
                        {"data.shuffle", "false"},
                        {"data.max_length", "40"},
                        {"objective", "{type: question_answering, doc_stride: 8}"}};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
};

TEST_F(QuestionRuns, LearnAndAreMeasured) {
  run(1, "run",
      asked(kBert, {{"trainer.steps", "60"},
                    {"trainer.precision", "fp32"},
                    {"trainer.eval_every", "30"},
                    {"optimizer.learning_rate", "0.01"},
                    {"data.eval", "{all: " + questions() + ", answered: " + questions(true) + "}"}}));
  const auto f1 = values(in("run"), "eval_all_f1"), exact = values(in("run"), "eval_all_exact_match");
  ASSERT_EQ(f1.size(), 2u);
  EXPECT_GT(f1[1], 0.9);
  EXPECT_GT(exact[1], 0.8);
  EXPECT_EQ(values(in("run"), "eval_all_questions").at(1), 14);
  EXPECT_EQ(values(in("run"), "eval_answered_questions").at(1), 13);
  EXPECT_EQ(values(in("run"), "eval_all_unanswered_exact_match").size(), 2u);
  EXPECT_TRUE(values(in("run"), "eval_answered_unanswered_exact_match").empty());
  EXPECT_EQ(values(in("run"), "accuracy").size(), 60u);
  const auto model = load_model(in("run").string(), Precision::fp32);
  EXPECT_TRUE(require_question_answerer(*model, "test").of_tokens());
  EXPECT_EQ(model->hf_config().find("architectures")->items().at(0).text(), "BertForQuestionAnswering");
  EXPECT_EQ(model->hf_config().find("id2label"), nullptr);
}

TEST_F(QuestionRuns, HowAStepIsCutOrSharedChangesNothing) {
  for (const auto& [name, model] :
       {std::pair{"bert", kBert}, {"deberta", kDeberta}, {"mpnet", kMpnet}, {"albert", kAlbert}}) {
    const std::string one = std::string(name) + "-";
    run(1, one + "one", asked(model));
    run(1, one + "whole", asked(model, {{"trainer.batch_size", "8"}, {"trainer.accumulate", "1"}}));
    run(2, one + "two", asked(model));
    run(2, one + "shares", asked(model, {{"parallel.fsdp", "-1"}}));
    for (const char* other : {"whole", "two", "shares"}) expect_close(in(one + "one"), in(one + other), 1e-9);
    const test::Overrides all = {{"data.max_length", "512"}, {"trainer.batch_size", "14"}, {"trainer.accumulate", "1"}};
    run(1, one + "padded", asked(model, all));
    run(1, one + "packed",
        asked(model, {{"data.max_length", "512"},
                      {"data.packing", "best_fit"},
                      {"trainer.batch_size", "1"},
                      {"trainer.accumulate", "1"}}));
    const auto padded = values(in(one + "padded"), "loss"), packed = values(in(one + "packed"), "loss");
    ASSERT_EQ(padded.size(), packed.size());
    for (std::size_t i = 0; i < padded.size(); ++i) EXPECT_NEAR(padded[i], packed[i], 1e-9) << name;
  }
}

TEST_F(QuestionRuns, CheckpointedBlocksAndResumedRunsHaveTheSameBits) {
  for (const auto& [name, model] : {std::pair{"deberta", kDeberta}, {"mpnet", kMpnet}, {"albert", kAlbert}}) {
    std::string dropping = model;
    for (std::size_t at; (at = dropping.find("dropout_prob: 0,")) != std::string::npos;)
      dropping.replace(at, 16, "dropout_prob: 0.1,");
    const std::string a = std::string(name) + "-straight", b = std::string(name) + "-broken",
                      c = std::string(name) + "-checkpointed";
    run(1, a, asked(dropping.c_str()));
    run(1, b, asked(dropping.c_str()));
    TrainOptions options;
    options.resume = "4";
    run(1, b, asked(dropping.c_str()), options);
    test::expect_equal_runs(in(a), in(b), 8);
    run(1, c, asked(dropping.c_str(), {{"trainer.checkpoint_blocks", "true"}}));
    test::expect_equal_runs(in(a), in(c), 8);
  }
}

// A folder with another head gets one; an adapter takes it along as PEFT does.
TEST_F(QuestionRuns, HeadsAreMadeAndGoWithAdapters) {
  run(1, "base", asked(kBert));
  const std::string base = in("base").string();
  run(1, "lora", asked(base.c_str(), {{"adapter", "{type: lora, rank: 4}"}, {"trainer.steps", "2"}}));
  const auto folder = in("lora") / test::step_folder(2);
  EXPECT_EQ(test::read_json(folder / "adapter_config.json").at("task_type"), "QUESTION_ANS");
  EXPECT_TRUE(test::read_tensors(folder / "adapter_model.safetensors").contains("base_model.model.qa_outputs.weight"));
  EXPECT_NE(fails(1,
                  asked("{type: llama, hidden_size: 32, intermediate_size: 64, num_hidden_layers: 1, "
                        "num_attention_heads: 4}"),
                  ErrorKind::config)
                .find("needs a head that says where in a text an answer stands"),
            std::string::npos);
}

}  // namespace
}  // namespace hone
