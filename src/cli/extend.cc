// hone extend: a model for more tokens than its tokenizer has.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/signals.h"
#include "base/strings.h"
#include "cli/output.h"
#include "cli/token_flags.h"
#include "hone/command.h"
#include "hone/config_read.h"
#include "hone/hub.h"
#include "hone/registry.h"
#include "hub/more_rows.h"
#include "hub/packed/find_packed.h"
#include "hub/save.h"
#include "hub/sentence_files.h"
#include "io/folder_commit.h"
#include "nn/finite.h"
#include "text/tokenizer/roles.h"

namespace hone::cli {
namespace {

class Extend final : public Command {
 public:
  struct Config {
    std::vector<std::string> special_tokens, tokens;
    std::string bos, eos, pad, mask;
    std::int64_t multiple = 1;
    std::string out;
    bool replace = false;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple{
          field("special_tokens", &C::special_tokens,
                "A token that texts do not show, as \"<|im_start|>\"; may be given several times."),
          field("tokens", &C::tokens, "A token that is text, as a word of its own; may be given several times."),
          field("bos", &C::bos, "The token that texts begin with, of these or of the tokenizer's."),
          field("eos", &C::eos, "The token that texts and answers end with."),
          field("pad", &C::pad, "The token that fills rows."),
          field("mask", &C::mask, "The token that hides others, for objective masked_lm."),
          field("multiple", &C::multiple, "Tables get a multiple of so many rows; 64 suits the products of GPUs.",
                {.low = 1, .high = 65536}),
          field("out", &C::out, "Folder to make: a model as any other."),
          field("replace", &C::replace,
                "A folder there that hone made, with nothing else in it, is moved to <folder>.old-k first.")};
    }
  };
  explicit Extend(const Config& config) : flags_(config) {}

  Usage usage() const override {
    return {"MODEL --out FOLDER",
            {"hone extend base --special-tokens \"<|im_start|>\" --special-tokens \"<|im_end|>\" --eos \"<|im_end|>\" "
             "--out chat-base",
             "hone extend base --tokens honeycomb --multiple 64 --out larger"},
            1,
            1};
  }

  int run(const Invocation& call) override {
    check();
    io::require_free(flags_.out, flags_.replace);  // before the work, not after
    const ModelPlace place = find_model(call.positionals[0]);
    if (!place.adapter.empty())
      throw Error(ErrorKind::usage, call.positionals[0] + ": a model with an adapter, whose tables are its base's")
          .hint("hone merge makes one model of both");
    const auto before = load_tokenizer(place.folder.string());
    const auto after = extended(*before);
    const auto model = load_model(place, stored_precision(place.folder));
    nn::check_weights_finite(*model, place.folder.string());  // new rows become the mean of others
    if (before->vocab_size() > model->vocab_size())
      throw Error(ErrorKind::config, fmt::format("{}: the tokenizer has {} tokens, and the model rows for {}",
                                                 place.folder.string(), before->vocab_size(), model->vocab_size()));
    const std::int64_t rows = rows_for(model->vocab_size(), after->vocab_size());
    const auto larger = hub::with_vocab_size(*model, rows, ids_of(*after));
    const hub::SavedWeights weights = hub::with_more_rows(*model, *larger, before->vocab_size(), after->vocab_size());
    save(place, *larger, weights, *after);
    warn(*before, *after, place.folder);
    report(*before, *after, model->vocab_size(), rows, call.json);
    return 0;
  }

 private:
  void check() const {
    if (flags_.out.empty()) throw Error(ErrorKind::usage, "--out: missing; expected a folder to make");
    check_token_flags(flags_.special_tokens, "--special-tokens");
    check_token_flags(flags_.tokens, "--tokens");
    for (const std::string& token : flags_.tokens)
      if (std::count(flags_.special_tokens.begin(), flags_.special_tokens.end(), token) > 0)
        throw Error(ErrorKind::usage,
                    fmt::format("--tokens: {} is given as a special token, too", hone::quoted(token)));
    if (flags_.special_tokens.empty() && flags_.tokens.empty() && roles().empty() && flags_.multiple == 1)
      throw Error(ErrorKind::usage,
                  "nothing to do: expected --special-tokens, --tokens, --bos, --eos, --pad, --mask or --multiple");
  }

  text::Roles roles() const {
    text::Roles made;
    for (const auto& [role, token] : {std::pair{"bos_token", &flags_.bos},
                                      {"eos_token", &flags_.eos},
                                      {"pad_token", &flags_.pad},
                                      {"mask_token", &flags_.mask}})
      if (!token->empty()) made.emplace_back(role, *token);
    return made;
  }

  std::shared_ptr<const Tokenizer> extended(const Tokenizer& tokenizer) const {
    std::vector<NewToken> more;
    for (const std::string& token : flags_.special_tokens) more.push_back({.content = token});
    for (const std::string& token : flags_.tokens)
      more.push_back({.content = token, .special = false, .normalized = true});
    const auto made = text::with_tokens(tokenizer, more);
    for (const auto& [role, token] : roles())
      if (!made->id_of(token))
        throw Error(ErrorKind::usage, fmt::format("--{}: {} is no token of this tokenizer",
                                                  role.substr(0, role.find('_')), hone::quoted(token)))
            .hint("--special-tokens adds it in the same call");
    return roles().empty() ? made : text::with_roles(*made, roles());
  }

  // As config.json has them.
  hub::TokenIds ids_of(const Tokenizer& tokenizer) const {
    hub::TokenIds ids;
    for (const auto& [role, token] : roles())
      if (role != "mask_token") ids.emplace_back(role + "_id", tokenizer.id_of(token).value());
    return ids;
  }

  std::int64_t rows_for(std::int64_t rows, std::int64_t tokens) const {
    return (std::max(rows, tokens) + flags_.multiple - 1) / flags_.multiple * flags_.multiple;
  }

  // What one would not expect of it.
  void warn(const Tokenizer& before, const Tokenizer& after, const std::filesystem::path& source) const {
    for (const std::string& token : flags_.special_tokens)
      if (!after.is_special(after.id_of(token).value()))
        log::warning("{}: is there already, as text, and stays so", hone::quoted(token));
    for (const std::string& token : flags_.tokens) {
      const std::vector<std::int32_t> ids = before.encode(token, /*special=*/false).ids;
      if (before.id_of(token))
        log::warning("{}: is there already{}", hone::quoted(token),
                     before.is_special(*before.id_of(token)) ? ", as a special token, and stays so" : "");
      else if (ids.size() == 1)
        log::warning(
            "{}: was one token already, {}, which texts will no longer show: what was learnt of it is not "
            "learnt of the new one",
            hone::quoted(token), ids[0]);
    }
    if ((before.adds_eos && !after.adds_eos) || (before.adds_bos && !after.adds_bos))
      log::warning(
          "the tokenizer's own template still begins or ends texts with the old token: it is in "
          "tokenizer.json, post_processor");
    const config::Node config = config::read_file((source / "config.json").string());
    if (const config::Node* held = config.find("quantization_config"); held && !held->is_null())
      log::warning("{}: its weights are quantized; those of {} are written in full{}", source.string(), flags_.out,
                   hub::holds_packed(source) ? "" : " (hone export --quantization makes them small again)");
  }

  void save(const ModelPlace& place, Model& larger, const hub::SavedWeights& weights,
            const Tokenizer& tokenizer) const {
    const auto type = std::find_if(weights.begin(), weights.end(), [](const auto& weight) { return !weight.buffer; });
    hub::FilesHow how{.align_ids = !roles().empty()};
    if (type != weights.end()) how.type = type->type;
    hub::ModelFiles files = hub::model_files(larger, place.folder, &tokenizer, how);
    for (const auto& file : hub::copied_sentence_files(place.folder)) files.texts.push_back(file);
    const StopSignal signals;
    io::FolderCommit commit = io::commit_to(flags_.out, flags_.replace);
    hub::add_model(commit, weights, files, [&] { StopSignal::check("writing " + flags_.out); });
    commit.commit({});
  }

  void report(const Tokenizer& before, const Tokenizer& after, std::int64_t rows, std::int64_t made, bool json) const {
    nlohmann::ordered_json tokens = nlohmann::ordered_json::object();
    std::vector<std::string> lines;
    for (const auto* list : {&flags_.special_tokens, &flags_.tokens})
      for (const std::string& token : *list) {
        const std::int32_t id = after.id_of(token).value_or(-1);
        tokens[token] = id;
        const bool known = before.id_of(token).has_value();
        const bool made_special = known && !before.is_special(id) && after.is_special(id);
        lines.push_back(fmt::format("{} is {}{}{}", hone::quoted(token), id, known ? ", as before" : "",
                                    made_special ? ", and special now" : ""));
      }
    if (json)
      return write_json(
          {{"folder", flags_.out}, {"tokens", tokens}, {"vocab_size", made}, {"vocab_size_before", rows}});
    for (const std::string& line : lines) std::cout << line << "\n";
    std::cout << fmt::format("{}: {} tokens, rows for {}{}\n", flags_.out, after.vocab_size(), made,
                             made == rows ? "" : fmt::format(" (were {})", rows));
  }

  Config flags_;
};

}  // namespace

void register_extend(Registries& hone) {
  hone.commands.add<Extend>("extend", "Give a model more tokens, or other ones that begin, end and pad texts.");
}

}  // namespace hone::cli
