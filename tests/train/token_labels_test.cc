// Runs that learn labels of words and of steps: what must hold of them, on one rank and on two.
#include "hone/hub.h"
#include "train/together.h"

namespace hone {
namespace {

using test::values;

class TokenRuns : public test::Together {
 protected:
  static constexpr const char* kBert =
      "{type: bert, hidden_size: 32, intermediate_size: 64, num_hidden_layers: 2, num_attention_heads: 4, "
      "max_position_embeddings: 512, hidden_dropout_prob: 0, attention_probs_dropout_prob: 0}";
  static constexpr const char* kLlama =
      "{type: llama, hidden_size: 32, intermediate_size: 64, num_hidden_layers: 2, num_attention_heads: 4, "
      "max_position_embeddings: 512, classifier_dropout: 0}";

  // Of different lengths, so that means of micro-batches' means would be others than the step's.
  std::string words() {
    std::string lines;
    for (const std::string who : {"Ada", "Grace Brewster", "Alan M", "Edsger"})
      for (const std::string where : {"Ulm", "New York"}) {
        nlohmann::json tokens, tags;
        const auto add = [&](const std::string& text, const std::string& type) {
          std::stringstream parts(text);
          bool first = true;
          for (std::string part; parts >> part; first = false)
            tokens.push_back(part), tags.push_back(type == "O" ? type : (first ? "B-" : "I-") + type);
        };
        add(who, "PER"), add("went to", "O"), add(where, "LOC");
        lines += nlohmann::json{{"tokens", tokens}, {"tags", tags}}.dump() + "\n";
      }
    return folder_.write("words.jsonl", lines).string();
  }
  std::string steps() {
    std::string lines;
    for (int i = 0; i < 8; ++i)
      lines += nlohmann::json{{"prompt", fmt::format("{} and 1?", i)},
                              {"completions", {"I count", i % 2 ? "it is odd" : "it is", fmt::format("{}", i + 1)}},
                              {"labels", {true, i % 2 == 1, true}}}
                   .dump() +
               "\n";
    return folder_.write("steps.jsonl", lines).string();
  }
  test::Overrides labelled(const char* model, const test::Overrides& more = {},
                           const char* type = "token_classification") {
    const bool of_steps = std::string_view(type) == "process_reward";
    test::Overrides all{{"model", model},          {"data.train", of_steps ? steps() : words()},
                        {"data.eval", "{}"},       {"data.shuffle", "false"},
                        {"data.max_length", "64"}, {"objective", std::string("{type: ") + type + "}"}};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
};

TEST_F(TokenRuns, LearnAndAreMeasured) {
  run(1, "run",
      labelled(kLlama, {{"trainer.steps", "40"},
                        {"trainer.precision", "fp32"},
                        {"trainer.eval_every", "20"},
                        {"optimizer.learning_rate", "0.01"},
                        {"data.eval", "{words: " + words() + "}"}}));
  const auto f1 = values(in("run"), "eval_f1"), accuracy = values(in("run"), "eval_accuracy");
  ASSERT_EQ(f1.size(), 2u);
  EXPECT_GT(f1[1], 0.9);
  EXPECT_GT(accuracy[1], 0.9);
  EXPECT_EQ(values(in("run"), "accuracy").size(), 40u);
  const auto model = load_model(in("run").string(), Precision::fp32);
  EXPECT_EQ(require_token_classifier(*model, "test").labels(),
            (std::vector<std::string>{"B-LOC", "B-PER", "I-LOC", "I-PER", "O"}));
}

TEST_F(TokenRuns, HowAStepIsCutOrSharedChangesNothing) {
  for (const char* model : {kBert, kLlama}) {
    const std::string name = model == kBert ? "bert-" : "llama-";
    run(1, name + "one", labelled(model));
    run(1, name + "whole", labelled(model, {{"trainer.batch_size", "8"}, {"trainer.accumulate", "1"}}));
    run(2, name + "two", labelled(model));
    run(2, name + "shares", labelled(model, {{"parallel.fsdp", "-1"}}));
    for (const char* other : {"whole", "two", "shares"}) expect_close(in(name + "one"), in(name + other), 1e-9);
    run(1, name + "packed",
        labelled(model, {{"data.packing", "best_fit"},
                         {"data.max_length", "512"},
                         {"trainer.batch_size", "1"},
                         {"trainer.accumulate", "1"}}));
    const auto padded = values(in(name + "whole"), "loss"), packed = values(in(name + "packed"), "loss");
    ASSERT_EQ(padded.size(), packed.size());
    for (std::size_t i = 0; i < padded.size(); ++i) EXPECT_NEAR(padded[i], packed[i], 1e-9) << name;
  }
}

TEST_F(TokenRuns, GoOnToTheSameBits) {
  for (const char* type : {"token_classification", "process_reward"}) {
    const std::string a = std::string(type) + "-straight", b = std::string(type) + "-broken";
    run(1, a, labelled(kLlama, {}, type));
    run(1, b, labelled(kLlama, {}, type));
    TrainOptions options;
    options.resume = "4";
    run(1, b, labelled(kLlama, {}, type), options);
    test::expect_equal_runs(in(a), in(b), 8);
  }
}

// Evaluation files are measured on all steps, whatever is learnt.
TEST_F(TokenRuns, StepsOfAnswersAreLearnt) {
  const std::string all = "{steps: " + steps() + "}";
  run(1, "last",
      labelled(kLlama,
               {{"objective", "{type: process_reward, train_on_last_step_only: true, labels: [no, yes]}"},
                {"data.eval", all},
                {"trainer.eval_every", "8"}},
               "process_reward"));
  EXPECT_EQ(values(in("last"), "eval_tokens"), std::vector<double>{24});
  run(1, "steps",
      labelled(kLlama,
               {{"data.eval", all},
                {"trainer.eval_every", "60"},
                {"trainer.steps", "60"},
                {"trainer.precision", "fp32"},
                {"optimizer.learning_rate", "0.01"}},
               "process_reward"));
  EXPECT_GT(values(in("steps"), "eval_accuracy").at(0), 0.9);
  EXPECT_EQ(load_model(in("steps").string(), Precision::fp32)->classifier()->labels(),
            (std::vector<std::string>{"false", "true"}));
}

// A folder that has such a head keeps it, one that has none or another gets one.
TEST_F(TokenRuns, HeadsGoOnOrAreMade) {
  run(1, "first", labelled(kBert));
  const std::string first = in("first").string(), weights = "model.safetensors", head = "classifier.weight";
  run(1, "next", labelled(first.c_str(), {{"optimizer.learning_rate", "0"}}));
  const auto before = test::read_tensors(in("first") / test::step_folder(8) / weights);
  EXPECT_TRUE(test::read_tensors(in("next") / test::step_folder(8) / weights).at(head).equal(before.at(head)));
  const std::string texts =
      folder_.write("t.jsonl", "{\"text\": \"a\", \"label\": \"O\"}\n{\"text\": \"b\", \"label\": \"B-PER\"}\n")
          .string();
  run(1, "texts",
      labelled(first.c_str(), {{"optimizer.learning_rate", "0"},
                               {"data.train", texts},
                               {"trainer.batch_size", "1"},
                               {"trainer.accumulate", "1"},
                               {"objective", "{type: classification, labels: [B-LOC, B-PER, I-LOC, I-PER, O]}"}}));
  EXPECT_FALSE(test::read_tensors(in("texts") / test::step_folder(8) / weights).at(head).equal(before.at(head)));
}

// As PEFT saves it: the head lies beside the factors.
TEST_F(TokenRuns, AdaptersTakeTheHeadAlong) {
  run(1, "base", labelled(kLlama));
  const std::string base = in("base").string();
  run(1, "lora", labelled(base.c_str(), {{"adapter", "{type: lora, rank: 4}"}, {"trainer.steps", "2"}}));
  const auto folder = in("lora") / test::step_folder(2);
  const nlohmann::json config = test::read_json(folder / "adapter_config.json");
  EXPECT_EQ(config.at("task_type"), "TOKEN_CLS");
  const auto tensors = test::read_tensors(folder / "adapter_model.safetensors");
  EXPECT_TRUE(tensors.contains("base_model.model.score.weight"));
  EXPECT_TRUE(tensors.contains("base_model.model.score.bias"));
  run(1, "plain", {{"model", kLlama}});
  const std::string plain = in("plain").string();
  const auto fails_without = labelled(plain.c_str(), {{"adapter", "{type: lora}"}});
  EXPECT_NE(fails(1, fails_without, ErrorKind::config).find("no classification head of tokens"), std::string::npos);
}

}  // namespace
}  // namespace hone
