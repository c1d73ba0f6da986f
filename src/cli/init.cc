// hone init: a new model folder with fresh weights.
#include <fmt/format.h>

#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/signals.h"
#include "base/strings.h"
#include "cli/output.h"
#include "hone/command.h"
#include "hone/hub.h"
#include "hone/registry.h"
#include "hub/fresh.h"
#include "hub/replaced_tokenizer.h"
#include "hub/save.h"
#include "io/folder_commit.h"

namespace hone::cli {
namespace {

class InitModel final : public Command {
 public:
  struct Config {
    std::string config, tokenizer;
    std::uint64_t seed = 1;
    bool replace = false;
    Precision precision = Precision::fp32;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple{
          field("config", &C::config, "A config.json to start from; --model.<key>=value changes or replaces it."),
          field("tokenizer", &C::tokenizer, "Tokenizer to copy into the folder: bytes, a folder or a tokenizer.json."),
          field("seed", &C::seed, "Seed of the weights; the same seed gives the same weights."),
          field("replace", &C::replace,
                "A folder there that hone made, with nothing else in it, is moved to <folder>.old-k first."),
          field("precision", &C::precision, "Type of the weights in the file.")};
    }
  };
  explicit InitModel(const Config& config) : flags_(config) {}

  Usage usage() const override {
    return {"FOLDER [--model.<key>=value ...]",
            {"hone init small --model.type=llama --model.hidden_size=256 --model.num_hidden_layers=4 --tokenizer bytes",
             "hone init copy --config other/config.json --tokenizer other --seed 7"},
            1, 1, true};
  }

  int run(const Invocation& call) override {
    const std::filesystem::path folder = call.positionals[0];
    io::require_free(folder, flags_.replace);  // before the work, not after
    std::shared_ptr<const Tokenizer> tokenizer;
    if (!flags_.tokenizer.empty()) tokenizer = load_tokenizer(flags_.tokenizer);
    const auto model =
        build_model(model_config(call, tokenizer.get()), flags_.config.empty() ? "--model" : flags_.config);
    if (tokenizer && tokenizer->vocab_size() > model->vocab_size())
      throw Error(ErrorKind::config,
                  fmt::format("vocab_size: got {}, expected at least {}, the tokens of the tokenizer",
                              model->vocab_size(), tokenizer->vocab_size()));
    init_weights(*model, flags_.seed, flags_.precision);
    const StopSignal signals;
    if (const std::string fact = tokenizer ? hub::replaced_tokenizer(*model, *tokenizer) : ""; !fact.empty())
      log::warning("{}", fact);
    hub::save_model_folder(folder, *model, hub::model_files(*model, "", tokenizer.get()), {.replace = flags_.replace});
    report(folder.string(), model->parameter_count(), tokenizer.get(), call.json);
    return 0;
  }

 private:
  static void report(const std::string& folder, std::int64_t parameters, const Tokenizer* tokenizer, bool json) {
    if (json)
      return write_json({{"folder", folder},
                         {"parameters", parameters},
                         {"tokens", tokenizer ? nlohmann::ordered_json(tokenizer->vocab_size()) : nullptr}});
    std::cout << fmt::format(
        "{}: {} parameters, {}\n", folder, human_count(double(parameters)),
        tokenizer ? fmt::format("tokenizer of {} tokens", tokenizer->vocab_size()) : "no tokenizer");
  }

  config::Node model_config(const Invocation& call, const Tokenizer* tokenizer) const {
    Problems problems;
    config::Node root = config::Node::map();
    config::Node& model = root.at_or_add("model");
    model = flags_.config.empty() ? config::Node::map() : hub::of_texts(config::read_file(flags_.config));
    for (const auto& [path, value] : call.overrides) {
      if (!path.starts_with("model."))
        problems.add("--" + path, "no such option; expected --model.<key of config.json>");
      else
        config::assign(root, path, value, {"--" + path, 0}, problems);
    }
    problems.raise("the command line", ErrorKind::usage);
    config::Node& made = *root.find("model");
    if (const config::Node* type = made.find("type"); type && !made.find("model_type"))
      made.at_or_add("model_type") = config::Node(*type);
    std::erase_if(made.entries(), [](const auto& entry) { return entry.first == "type"; });
    made = hub::of_texts(made);
    const auto changed = tokenizer ? hub::take_tokenizer_ids(made, *tokenizer) : std::vector<std::string>();
    hub::add_tokenizer_keys(made, tokenizer);
    const std::string file = flags_.config.empty() ? "--model" : flags_.config;
    for (const std::string& key : hub::keys_without_effect(made, file)) {
      const std::string& flag = made.find(key)->mark().file;
      if (flag.starts_with("--"))
        problems.add("", key.ends_with("dtype") ? "--precision says it" : "changes nothing of a model", "", {flag, 0});
    }
    problems.raise(file);
    if (!changed.empty())
      log::info("{}: ids of special tokens become the tokenizer's: {}", flags_.config, join(changed, ", "));
    return made;
  }

  Config flags_;
};

}  // namespace

void register_init(Registries& hone) {
  hone.commands.add<InitModel>("init", "Make a new model folder with fresh weights.");
}

}  // namespace hone::cli
