// hone tokenizer: a vocabulary of your own from text files.
#include <fmt/format.h>

#include <array>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/strings.h"
#include "cli/output.h"
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

// The lines of files, one after the other, each with its line end.
class Lines {
 public:
  explicit Lines(std::vector<std::string> paths) : paths_(std::move(paths)) {}
  bool next(std::string& line) {
    for (;;) {
      if (file_.is_open() && std::getline(file_, line)) {
        if (!file_.eof()) line += '\n';
        bytes_ += line.size();
        return true;
      }
      if (file_.is_open() && file_.bad()) throw Error(ErrorKind::data, paths_[opened_ - 1] + ": cannot be read");
      if (opened_ == paths_.size()) return false;
      file_ = std::ifstream(paths_[opened_++], std::ios::binary);
      if (!file_) throw Error(ErrorKind::data, paths_[opened_ - 1] + ": cannot be opened");
    }
  }
  std::uint64_t bytes() const { return bytes_; }

 private:
  std::vector<std::string> paths_;
  std::size_t opened_ = 0;
  std::uint64_t bytes_ = 0;
  std::ifstream file_;
};

class TokenizerCommand final : public Command {
 public:
  struct Config {
    text::TrainedKind kind = text::TrainedKind::bpe;
    std::int64_t vocab_size = 32000, min_frequency = 2, threads = 0;
    std::vector<std::string> special_tokens;
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
                "Tokens with the first ids, found in texts as they are; default: those usual for the kind."),
          field("lowercase", &C::lowercase,
                "Only for word_piece, where it is the default: fold upper case and accents."),
          field("threads", &C::threads, "Threads that count words; 0 = as many as the process may use.", at_least(0)),
          field("out", &C::out, "The folder to write."),
          field("replace", &C::replace,
                "A folder there that hone made, with nothing else in it, is moved to <folder>.old-k first.")};
    }
  };
  explicit TokenizerCommand(const Config& config) : flags_(config) {}

  Usage usage() const override {
    return {"train FILE...",
            {"hone tokenizer train corpus.txt --vocab-size 8000 --out my-tokenizer",
             "hone tokenizer train a.txt b.txt --kind unigram --special-tokens \"[<pad>, </s>, <unk>]\""},
            2,
            100'000};
  }

  int run(const Invocation& call) override {
    if (call.positionals[0] != "train")
      throw Error(ErrorKind::usage,
                  fmt::format("tokenizer: got {}, expected train", hone::quoted(call.positionals[0])));
    if (flags_.lowercase && flags_.kind != text::TrainedKind::word_piece)
      throw Error(ErrorKind::usage, "--lowercase: only with --kind word_piece; the other kinds keep texts as they are");
    io::require_free(flags_.out, flags_.replace);  // before the work, not after
    Lines lines({call.positionals.begin() + 1, call.positionals.end()});
    text::TrainerConfig config;
    config.kind = flags_.kind;
    config.lowercase = flags_.lowercase.value_or(true);
    config.options.vocab_size = static_cast<std::size_t>(flags_.vocab_size);
    config.options.min_frequency = static_cast<std::uint64_t>(flags_.min_frequency);
    config.options.special_tokens = flags_.special_tokens;
    config.options.threads = static_cast<int>(flags_.threads);
    const text::Files files = train_tokenizer(config, [&](std::string& line) { return lines.next(line); });
    const auto tokenizer = text::make_tokenizer(files, {}, flags_.out);  // what is written can be read
    write(files);
    if (call.json)
      write_json({{"folder", flags_.out}, {"tokens", tokenizer->vocab_size()}, {"text_bytes", lines.bytes()}});
    else
      std::cout << fmt::format("{}: {} tokens from {}\n", flags_.out, tokenizer->vocab_size(),
                               human_size(lines.bytes()));
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
  hone.commands.add<TokenizerCommand>("tokenizer", "Train a tokenizer on text files.");
}

}  // namespace hone::cli
