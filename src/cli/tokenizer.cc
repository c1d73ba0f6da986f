// hone tokenizer: a vocabulary of your own from texts.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/option_words.h"
#include "base/strings.h"
#include "cli/output.h"
#include "cli/read_data.h"
#include "cli/record_flags.h"
#include "cli/token_flags.h"
#include "cli/training_texts.h"
#include "hone/command.h"
#include "hone/registry.h"
#include "hone/text.h"
#include "io/folder_commit.h"
#include "text/tokenizer/load.h"
#include "text/train/train_tokenizer.h"

template <>
inline constexpr auto hone::config::enum_names<hone::text::TrainedKind> =
    std::to_array<std::pair<hone::text::TrainedKind, std::string_view>>(
        {{hone::text::TrainedKind::bpe, "bpe"},
         {hone::text::TrainedKind::word_piece, "word_piece"},
         {hone::text::TrainedKind::unigram, "unigram"}});

namespace hone::cli {
namespace {

class TokenizerCommand final : public Command {
 public:
  struct Config {
    text::TrainedKind kind = text::TrainedKind::bpe;
    std::int64_t vocab_size = 32000, min_frequency = 2, threads = 0;
    std::vector<std::string> special_tokens, columns, ignore;
    std::optional<bool> lowercase;
    bool replace = false;
    std::string out = "tokenizer";
    static constexpr auto fields() {
      using C = Config;
      return std::tuple{
          field("kind", &C::kind, "bpe cuts bytes as GPT-2, word_piece words as BERT, unigram as T5."),
          field("vocab_size", &C::vocab_size,
                "Tokens in all, special ones among them; fewer when the text does not have as many.", at_least(1)),
          field("min_frequency", &C::min_frequency, "A pair or piece that occurs less often becomes no token.",
                at_least(0)),
          field("special_tokens", &C::special_tokens,
                "Token with one of the first ids, found in texts as it is; may be given several times; default: those "
              "usual for the kind."),
          field("lowercase", &C::lowercase,
                "Only for word_piece, where it is the default: fold upper case and accents."),
          columns_flag<C>(),
          ignore_flag<C>(),
          field("threads", &C::threads, "Threads that count words; 0 = as many as the process may use.",
                {.low = 0, .high = 1024}),
          field("out", &C::out, "The folder to write."),
          field("replace", &C::replace,
                "A folder there that hone made, with nothing else in it, is moved to <folder>.old-k first.")};
    }
  };
  explicit TokenizerCommand(const Config& config) : flags_(config) {}

  Usage usage() const override {
    return {"train FILE...",
            {"hone tokenizer train corpus.txt --vocab-size 8000 --out my-tokenizer",
             "hone tokenizer train a.txt b.txt --kind unigram --special-tokens \"<pad>\" --special-tokens \"</s>\"",
             "hone tokenizer train chats.jsonl stories.csv --columns text=story"},
            2,
            100'000};
  }

  int run(const Invocation& call) override {
    const WordsOfFlags words;
    if (call.positionals[0] != "train")
      throw Error(ErrorKind::usage,
                  fmt::format("tokenizer: got {}, expected train", hone::quoted(call.positionals[0])));
    if (flags_.lowercase && flags_.kind != text::TrainedKind::word_piece)
      throw Error(ErrorKind::usage, "--lowercase: only with --kind word_piece; the other kinds keep texts as they are");
    check_token_flags(flags_.special_tokens, "--special-tokens");
    io::require_free(flags_.out, flags_.replace);  // before the work, not after
    SourceFile like;
    like.columns = parse_columns(flags_.columns);
    like.ignore = flags_.ignore;
    TrainingTexts texts({call.positionals.begin() + 1, call.positionals.end()}, like);
    text::TrainerConfig config;
    config.kind = flags_.kind;
    config.lowercase = flags_.lowercase.value_or(true);
    config.options.vocab_size = static_cast<std::size_t>(flags_.vocab_size);
    config.options.min_frequency = static_cast<std::uint64_t>(flags_.min_frequency);
    config.options.special_tokens = flags_.special_tokens;
    config.options.threads = static_cast<int>(flags_.threads);
    const text::Files files = train_tokenizer(config, [&](std::string& text) { return texts.next(text); });
    const auto tokenizer = text::make_tokenizer(files, {}, flags_.out);  // what is written can be read
    if (tokenizer->vocab_size() > flags_.vocab_size)
      throw Error(ErrorKind::usage,
                  fmt::format("--vocab-size: got {}, expected at least {}: special tokens and {} have a token each",
                              flags_.vocab_size, tokenizer->vocab_size(),
                              flags_.kind == text::TrainedKind::bpe ? "bytes" : "the characters of the text"));
    write(files);
    if (call.json)
      write_json({{"folder", flags_.out}, {"tokens", tokenizer->vocab_size()}, {"text_bytes", texts.bytes()}});
    else
      std::cout << fmt::format("{}: {} tokens from {}\n", flags_.out, tokenizer->vocab_size(),
                               human_size(texts.bytes()));
    return 0;
  }

 private:
  void write(const text::Files& files) const {
    io::FolderCommit commit = io::commit_to(flags_.out, flags_.replace);
    for (const auto& [name, content] : files) commit.add_file(name, content);
    commit.commit({});
  }

  Config flags_;
};

}  // namespace

void register_tokenizer(Registries& hone) {
  hone.commands.add<TokenizerCommand>("tokenizer", "Train a tokenizer on texts.");
}

}  // namespace hone::cli
