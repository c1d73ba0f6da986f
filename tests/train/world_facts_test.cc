// Ranks that have not the same files, weights or numbers of threads: one error on all of them, before anything is
// written of it.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "hone/config_read.h"
#include "hone/data_in_memory.h"
#include "hone/hub.h"
#include "hone/registry.h"
#include "train/together.h"

namespace hone {
namespace {

// Changes a weight on one rank alone.
class Parts final : public Callback {
 public:
  struct Config {
    std::int64_t step = 3, rank = 1;
    static constexpr auto fields() {
      return std::tuple{field("step", &Config::step, "When."), field("rank", &Config::rank, "Where.")};
    }
  };
  explicit Parts(const Config& config) : config_(config) {}
  void after_update(const TrainView& view, WeightEdit& edit) override {
    if (view.step != config_.step || view.world->rank() != config_.rank) return;
    edit.each([](const std::string& name, Tensor& value) {
      if (name.ends_with("norm.weight")) value.view({-1})[0].add_(1e-3);
    });
  }

 private:
  Config config_;
};

class Alike : public test::Together {
 protected:
  static void SetUpTestSuite() {
    if (!registries().callbacks.find("parts")) registries().callbacks.add<Parts>("parts", "For tests.");
  }
  using Make = std::function<TrainerInputs(const World&)>;
  // All ranks fail alike; what they say.
  std::string refused(const test::Overrides& more, ErrorKind kind, const Make& make = nullptr,
                      const std::function<void(const World&)>& before = nullptr) {
    std::vector<std::string> texts(2);
    const Recipe recipe = test::small_recipe(folder_, with(more));
    test::on_ranks(2, [&](const World& world) {
      if (before) before(world);
      TrainOptions own = test::quiet_options();
      own.handle_signals = false, own.world = world;
      Recipe mine = recipe;
      if (make) mine.data.train.clear(), mine.data.eval = {}, mine.trainer.eval_every = 0;
      try {
        Trainer(mine, make ? make(world) : TrainerInputs(), own).run();
        ADD_FAILURE() << "rank " << world.rank() << " was not refused";
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), kind) << error.what();
        texts[static_cast<std::size_t>(world.rank())] = error.what();
      }
    });
    const bool own = texts[0].starts_with("the ranks are not alike");  // another one says how
    EXPECT_TRUE(own || texts[0] == texts[1]) << texts[0];
    return texts[1];
  }
  // Rank 1 has one record more.
  static TrainerInputs records(const World& world) {
    const auto tokenizer = load_tokenizer("bytes");
    std::vector<Record> all;
    for (int i = 0; i < 40 + world.rank(); ++i) all.push_back({TextRecord{"record " + std::to_string(i)}});
    TrainerInputs given;
    Dataset::Options options;
    options.max_length = 64;
    given.train = make_dataset(all, "records", *tokenizer, options);
    return given;
  }
};

TEST_F(Alike, OtherDataOnARankAreRefused) {
  const std::string text = refused({}, ErrorKind::data, records);
  EXPECT_NE(text.find("data.train: not the same on rank 1 as on rank 0"), std::string::npos) << text;
  EXPECT_FALSE(std::filesystem::exists(in("run")));
}

TEST_F(Alike, OtherWeightsOnARankAreRefused) {
  const auto model = [&](const World& world) {
    TrainerInputs given = records(World());
    given.tokenizer = load_tokenizer("bytes");
    Problems problems;
    given.model = build_model(config::parse_yaml("{model_type: llama, vocab_size: 259, hidden_size: 16, "
                                                 "intermediate_size: 32, num_hidden_layers: 1, num_attention_heads: 2}",
                                                 "model", problems),
                              "model");
    init_weights(*given.model, static_cast<std::uint64_t>(world.rank()), Precision::fp32);
    return given;
  };
  Recipe without = test::small_recipe(folder_, with({{"trainer.precision", "fp32"}}));
  without.model = {}, without.tokenizer.clear();
  without.data.train.clear(), without.data.eval = {}, without.trainer.eval_every = 0;
  std::vector<std::string> texts(2);
  test::on_ranks(2, [&](const World& world) {
    TrainOptions own = test::quiet_options();
    own.handle_signals = false, own.world = world;
    try {
      Trainer(without, model(world), own).run();
    } catch (const Error& error) {
      texts[static_cast<std::size_t>(world.rank())] = error.what();
    }
  });
  EXPECT_NE(texts[0].find("weights: not the same on rank 1 as on rank 0"), std::string::npos) << texts[0];
  EXPECT_EQ(texts[0], texts[1]);
}

// A checkpoint would have parts of both.
TEST_F(Alike, WeightsThatHavePartedAreNotSaved) {
  const std::string text =
      refused({{"callbacks", "[{type: parts}]"}, {"data.eval.held_out", "0"}}, ErrorKind::bug);
  EXPECT_NE(text.find("step 4: the weights of rank 1 are not those of rank 0 any more"), std::string::npos) << text;
  EXPECT_NE(text.find("kept no checkpoint"), std::string::npos) << text;
  EXPECT_FALSE(std::filesystem::exists(in("run") / test::step_folder(4)));
}

// Muon's products run over a whole weight.
TEST_F(Alike, OtherNumbersOfThreadsAreRefusedWhereBitsDependOnThem) {
  const int before = at::get_num_threads();
  const auto threads = [](const World& world) {
    at::get_num_threads();  // a thread's first call takes what any thread has set
    at::set_num_threads(1 + world.rank());
  };
  const std::string text = refused({{"optimizer", "{type: muon, learning_rate: 1e-3}"}}, ErrorKind::config, nullptr,
                                   threads);
  at::set_num_threads(before);
  EXPECT_NE(text.find("2 threads here, 1 there, on which the last bits of optimizer muon depend"), std::string::npos)
      << text;
}

TEST_F(Alike, RanksThatAreAtSomethingElseAreRefused) {
  std::vector<std::string> texts(2);
  const Recipe recipe = test::small_recipe(folder_, with({}));
  test::on_ranks(2, [&](const World& world) {
    TrainOptions own = test::quiet_options();
    own.handle_signals = false, own.world = world;
    if (!world.is_first()) own.gradients = in("gradients.safetensors").string();
    try {
      train(recipe, own);
    } catch (const Error& error) {
      texts[static_cast<std::size_t>(world.rank())] = error.what();
    }
  });
  EXPECT_NE(texts[1].find("--gradients or --replay differ"), std::string::npos) << texts[1];
}

}  // namespace
}  // namespace hone
