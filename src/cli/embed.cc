// hone embed: the vectors that an embedding model gives texts.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iostream>
#include <numeric>

#include "base/log.h"
#include "base/signals.h"
#include "base/strings.h"
#include "cli/embedder.h"
#include "cli/prompt_file.h"
#include "cli/read_data.h"
#include "cli/record_flags.h"
#include "cli/sparse_texts.h"
#include "cli/texts_to_classify.h"
#include "hone/command.h"
#include "hone/registry.h"
#include "io/safetensors_writer.h"
#include "tensor/host.h"

namespace hone {
namespace cli {
namespace {
enum class TextKind { query, document };
}  // namespace
}  // namespace cli

template <>
inline constexpr auto config::enum_names<cli::TextKind> = std::to_array<std::pair<cli::TextKind, std::string_view>>(
    {{cli::TextKind::query, "query"}, {cli::TextKind::document, "document"}});

namespace cli {
namespace {

using nlohmann::ordered_json;

constexpr std::int64_t kBatchesSorted = 32;  // so many are sorted by length before they are computed

class Embed final : public Command {
 public:
  struct Config : ModelFlags {
    using Base = ModelFlags;
    std::vector<std::string> text, columns;
    std::string data, tokenizer, adapter, prompt_name, out;
    std::optional<std::string> prompt;
    std::optional<TextKind> as;
    std::optional<nn::Pooling> pooling;
    std::optional<bool> normalize;
    std::optional<std::int64_t> max_length, dims, max_active_dims;
    std::int64_t batch_size = 32;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple_cat(
          std::tuple{
              field("text", &C::text, "A text; may be given several times."),
              field("data", &C::data,
                    "A file of texts, - for standard input: lines of a .txt, or objects of .jsonl, .json, .csv, .tsv, "
                    ".parquet with text."),
              field("columns", &C::columns,
                    "Renamed field, as text=story: read the field `story` as `text`; or a template, as text={{ a }}: "
                    "{{ b }}."),
              tokenizer_flag<C>(),
              adapter_flag<C>(),
              field("prompt_name", &C::prompt_name,
                    "Which of the folder's prompts stands before each text, as query or document; default: the one "
                    "that the folder names as such, if it does."),
              field("prompt", &C::prompt, "What stands before each text instead."),
              field("as", &C::as,
                    "Of a late-interaction model, whose texts have a vector of each token: what the texts are, by "
                    "which the folder cuts them, goes on with mask tokens or skips some, and whose prompt stands "
                    "before them; default: document. Then a line has all vectors of a text, as embeddings."),
              field(
                  "pooling", &C::pooling,
                  "What stands for a text; default: as the folder says (1_Pooling), else last of a language model and "
                  "mean of others."),
              field("normalize", &C::normalize,
                    "Vectors have length 1; default: as the folder says (2_Normalize), true without one."),
              field("dims", &C::dims,
                    "Only the first so many numbers of each vector, of length 1 once more where vectors have that; "
                    "default: as the folder says (truncate_dim, which leaves them as they are), else all.",
                    at_least(1)),
              field("max_active_dims", &C::max_active_dims,
                    "Of a sparse encoder: so many of a text's largest weights stay, the others are 0; default: as the "
                    "folder says, else all.",
                    at_least(1)),
              field("max_length", &C::max_length,
                    "Most tokens of a text; default: as the folder says, else the positions the model was made for, at "
                    "most 2048. Longer ones lose their end; how many is said.",
                    at_least(1)),
              field("batch_size", &C::batch_size, "Texts per forward pass.", at_least(1)),
              field("out", &C::out,
                    "Write the vectors to this safetensors file, as embeddings of shape [texts, numbers], or of a "
                    "sparse encoder as a matrix of compressed rows, instead of printing them.")},
          Base::fields());
    }
  };
  explicit Embed(const Config& config) : flags_(config) {}

  Usage usage() const override {
    return {"MODEL --text TEXT | --data FILE  (without either: standard input, a text a line)",
            {"hone embed runs/embedding --text \"How do I reset it?\" --prompt-name query",
             "hone embed runs/embedding --data texts.jsonl --out vectors.safetensors"},
            1,
            1};
  }

  int run(const Invocation& call) override {
    if (!flags_.columns.empty() && !flags_.text.empty())
      throw Error(ErrorKind::usage, "--columns: not together with --text, which has no fields");
    if (!flags_.out.empty()) io::require_replaceable(flags_.out, ErrorKind::checkpoint, kHeldEmbeddings);
    if (flags_.prompt && !flags_.prompt_name.empty())
      throw Error(ErrorKind::usage, "--prompt and --prompt-name: expected one of them");
    embedder_.emplace(model_place(call.positionals[0], flags_.adapter), flags_,
                      EmbedderOptions{.tokenizer = flags_.tokenizer,
                                      .pooling = flags_.pooling,
                                      .normalize = flags_.normalize,
                                      .max_length = flags_.max_length,
                                      .dims = flags_.dims,
                                      .max_active_dims = flags_.max_active_dims});
    choose_prompt();
    require_room_behind(*embedder_, prompt_);
    TextsToClassify texts(parse_columns(flags_.columns));
    const StopSignal signals;
    std::int64_t told = 0;
    const std::string option = "--text";
    for (const std::string& text : flags_.text) add(text, {option, ++told});
    const std::string file = flags_.data.empty() ? "-" : flags_.data;
    if (!flags_.data.empty() || flags_.text.empty())
      read_prompt_file(
          file,
          [&](const ordered_json& value, const data::Place& where) {
            const LabelledRecord record = texts.read(value, where);
            if (record.text_pair)
              throw Error(ErrorKind::data, where.text() + ": text_pair: a vector is of one text")
                  .hint("--columns text=\"{{ text }} {{ text_pair }}\" makes one of both");
            add(record.text, where);
          },
          parse_columns(flags_.columns));
    finish(texts);
    return 0;
  }

 private:
  void choose_prompt() {
    const bool tokens = embedder_->gives_tokens();
    if (flags_.as && !tokens)
      throw Error(ErrorKind::usage, "--as: of a late-interaction model alone, whose texts have a vector of each token")
          .hint("--prompt-name chooses the prompt of others");
    if (tokens && !flags_.out.empty())
      throw Error(ErrorKind::usage, "--out: the model's texts have as many vectors as tokens, which are printed; "
                                    "expected no file")
          .hint("hone embed … > vectors.jsonl");
    if (flags_.as == TextKind::query) role_ = Role::query;
    const bool usual = tokens && !flags_.prompt && flags_.prompt_name.empty();
    prompt_ = flags_.prompt ? *flags_.prompt
              : usual       ? embedder_->usual_prompt(role_)
                            : embedder_->prompt(flags_.prompt_name, "--prompt-name");
  }

  void add(const std::string& text, const data::Place& place) {
    StopSignal::check("embedding");
    Embedder::Tokens tokens = embedder_->read(text, prompt_, place.text(), role_);
    cut_ += tokens.is_cut;
    waiting_.push_back(std::move(tokens.ids));
    if (std::ssize(waiting_) == kBatchesSorted * flags_.batch_size) embed_waiting();
  }

  // Texts of like length are computed together, and given in their order.
  void embed_waiting() {
    if (waiting_.empty()) return;
    std::vector<std::int64_t> order(waiting_.size()), place(waiting_.size());
    std::iota(order.begin(), order.end(), 0);
    const auto length = [&](std::int64_t i) { return waiting_[static_cast<std::size_t>(i)].size(); };
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return length(a) > length(b); });
    for (std::size_t i = 0; i < order.size(); ++i)
      place[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
    std::vector<Tensor> made, of_tokens(order.size());
    for (std::size_t begin = 0; begin < order.size(); begin += static_cast<std::size_t>(flags_.batch_size)) {
      StopSignal::check("embedding");
      std::vector<std::vector<std::int32_t>> texts;
      for (std::size_t i = begin; i < std::min(order.size(), begin + static_cast<std::size_t>(flags_.batch_size)); ++i)
        texts.push_back(std::move(waiting_[static_cast<std::size_t>(order[i])]));
      if (!embedder_->gives_tokens()) {
        made.push_back(embedder_->vectors(texts));
        continue;
      }
      std::size_t i = begin;
      for (Tensor& one : embedder_->token_vectors(std::move(texts), role_))
        of_tokens[static_cast<std::size_t>(order[i++])] = std::move(one);
    }
    waiting_.clear();
    if (embedder_->gives_tokens()) return give_tokens(of_tokens);
    give(at::cat(made).index_select(0, host::tensor_of(place, {std::ssize(place)})).contiguous());
  }

  void give(const Tensor& vector_SD) {
    const auto values = host::values<float>(vector_SD);
    embedded_ += vector_SD.size(0);
    if (embedder_->is_sparse()) return give_sparse(vector_SD);
    if (!flags_.out.empty()) return made_.push_back(vector_SD);
    const auto width = static_cast<std::size_t>(vector_SD.size(1));
    for (std::size_t at = 0; at < values.size(); at += width)
      std::cout << fmt::format("{{\"embedding\":[{}]}}\n", fmt::join(values.subspan(at, width), ","));
  }

  void give_tokens(const std::vector<Tensor>& texts) {
    for (const Tensor& vector_ND : texts) {
      const auto values = host::values<float>(vector_ND);
      const auto width = static_cast<std::size_t>(vector_ND.size(1));
      std::vector<std::string> vectors;
      for (std::size_t at = 0; at < values.size(); at += width)
        vectors.push_back(fmt::format("[{}]", fmt::join(values.subspan(at, width), ",")));
      std::cout << fmt::format("{{\"embeddings\":[{}]}}\n", fmt::join(vectors, ","));
    }
    embedded_ += std::ssize(texts);
  }

  void give_sparse(const Tensor& vector_SV) {
    for (SparseText& one : sparse_texts(vector_SV)) {
      if (flags_.out.empty()) std::cout << sparse_line(one, embedder_->tokenizer()) << '\n';
      else sparse_.push_back(std::move(one));
    }
  }

  void write() const {
    if (embedder_->is_sparse()) {
      write_sparse(flags_.out, sparse_, embedder_->width());
      return log::info("{}: {} of {} numbers, of which {} are not 0", flags_.out, counted(embedded_, "vector"),
                       embedder_->width(), active(sparse_));
    }
    const Tensor all_SD = at::cat(made_).contiguous();
    io::replace_safetensors(
        Env::process(), flags_.out, {{kHeldEmbeddings, "F32", all_SD.sizes().vec()}}, {{io::kHolds, kHeldEmbeddings}},
        [&](const io::TensorSpec&) { return host::bytes(all_SD); }, ErrorKind::checkpoint);
    log::info("{}: {} of {} numbers", flags_.out, counted(all_SD.size(0), "vector"), all_SD.size(1));
  }

  void finish(const TextsToClassify& texts) {
    embed_waiting();
    if (embedded_ == 0) throw Error(ErrorKind::data, (flags_.data.empty() ? "stdin" : flags_.data) + ": no texts");
    if (!flags_.out.empty()) write();
    if (cut_ > 0)
      log::warning("{} of {} were longer than {} tokens and were cut", cut_, counted(embedded_, "text"),
                   embedder_->max_length());
    if (!texts.unread().empty())
      log::info("fields that are not read: {}", list_names({texts.unread().begin(), texts.unread().end()}, 20));
  }

  Config flags_;
  std::optional<Embedder> embedder_;
  std::string prompt_;
  Role role_ = Role::chosen;
  std::int64_t embedded_ = 0, cut_ = 0;
  std::vector<std::vector<std::int32_t>> waiting_;
  std::vector<Tensor> made_;
  std::vector<SparseText> sparse_;
};

}  // namespace

void register_embed(Registries& hone) { hone.commands.add<Embed>("embed", "Vectors of texts, by an embedding model."); }

}  // namespace cli
}  // namespace hone
