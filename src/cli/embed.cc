// hone embed: the vectors that an embedding model gives texts.
#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <numeric>

#include "base/log.h"
#include "base/signals.h"
#include "base/strings.h"
#include "cli/model_place.h"
#include "cli/prompt_file.h"
#include "cli/read_data.h"
#include "cli/texts_to_classify.h"
#include "hone/command.h"
#include "hone/hub.h"
#include "hone/registry.h"
#include "hub/sentence_files.h"
#include "io/safetensors_writer.h"
#include "nn/finite.h"
#include "nn/text_embedding.h"
#include "tensor/host.h"
#include "train/inputs.h"

namespace hone::cli {
namespace {

using nlohmann::ordered_json;

constexpr const char* kEmbeddings = "embeddings";
constexpr std::int64_t kBatchesSorted = 32;  // so many are sorted by length before they are computed

// What the folder says, or the adapter's beside it.
hub::SentenceFolder said_by_folder(const ModelPlace& place, const Model& model) {
  if (!place.adapter.empty())
    if (const auto found = hub::read_sentence_folder(place.adapter)) return *found;
  if (const auto found = hub::read_sentence_folder(place.folder)) return *found;
  hub::SentenceFolder usual;
  usual.pooling = nn::usual_pooling(model), usual.normalize = true;
  return usual;
}

class Embed final : public Command {
 public:
  struct Config : ModelFlags {
    using Base = ModelFlags;
    std::vector<std::string> text, columns;
    std::string data, tokenizer, adapter, prompt_name, out;
    std::optional<std::string> prompt;
    std::optional<nn::Pooling> pooling;
    std::optional<bool> normalize;
    std::optional<std::int64_t> max_length, dims;
    std::int64_t batch_size = 32;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple_cat(
          std::tuple{
              field("text", &C::text, "A text; may be given several times."),
              field("data", &C::data,
                    "A file of texts, - for standard input: lines of a .txt, or objects of .jsonl, .json, .csv, .tsv "
                    "with text."),
              field("columns", &C::columns,
                    "Renamed field, as text=story: read the field `story` as `text`; or a template, as text={{ a }}: "
                    "{{ b }}."),
              field("tokenizer", &C::tokenizer, "bytes, a folder or a tokenizer.json; default: the model's own."),
              field("adapter", &C::adapter, "Folder of a LoRA adapter, of PEFT or of a run, to put on the model."),
              field("prompt_name", &C::prompt_name,
                    "Which of the folder's prompts stands before each text, as query or document; default: the one "
                    "that the folder names as such, if it does."),
              field("prompt", &C::prompt, "What stands before each text instead."),
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
              field("max_length", &C::max_length,
                    "Most tokens of a text; default: as the folder says, else the positions the model was made for, at "
                    "most 2048. Longer ones lose their end; how many is said.",
                    at_least(1)),
              field("batch_size", &C::batch_size, "Texts per forward pass.", at_least(1)),
              field("out", &C::out,
                    "Write the vectors to this safetensors file, as embeddings of shape [texts, numbers], instead of "
                    "printing them.")},
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
    if (!flags_.out.empty()) io::require_replaceable(flags_.out, ErrorKind::data, kEmbeddings);
    const ModelPlace place = model_place(call.positionals[0], flags_.adapter);
    tokenizer_ = tokenizer_of(place, flags_.tokenizer);
    model_ = load_model(place, flags_);
    choose(said_by_folder(place, *model_));
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
  // The flags, then what the folder says.
  void choose(const hub::SentenceFolder& folder) {
    pooling_ = flags_.pooling.value_or(folder.pooling);
    normalize_ = flags_.normalize.value_or(folder.normalize);
    longest_ = flags_.max_length.value_or(std::min(
        folder.max_length.value_or(std::min<std::int64_t>(model_->max_positions(), 2048)), model_->max_positions()));
    model_->check_length(longest_, "--max-length");
    const std::int64_t width = nn::embedding_width(*model_);
    dims_ = std::min(flags_.dims.value_or(folder.dims.value_or(width)), width);
    again_ = flags_.dims || flags_.normalize.value_or(false);
    if (flags_.dims.value_or(1) > width)
      throw Error(ErrorKind::usage, fmt::format("--dims: got {}, expected at most {}, the size of the model's vectors",
                                                *flags_.dims, width));
    if (flags_.prompt && !flags_.prompt_name.empty())
      throw Error(ErrorKind::usage, "--prompt and --prompt-name: expected one of them");
    const std::string name = flags_.prompt_name.empty() ? folder.default_prompt : flags_.prompt_name;
    if (flags_.prompt || name.empty()) return put_before(flags_.prompt.value_or(""));
    const auto found = folder.prompts.find(name);
    if (found == folder.prompts.end()) {
      std::vector<std::string> names;
      for (const auto& [known, prompt] : folder.prompts) names.push_back(known);
      throw Error(ErrorKind::usage, fmt::format("--prompt-name: the model has no prompt {}; it has {}",
                                                hone::quoted(name), names.empty() ? "none" : list_names(names)));
    }
    put_before(found->second);
  }

  // Error(usage): nothing else is left of a text.
  void put_before(const std::string& prompt) {
    prompt_ = prompt;
    if (prompt.empty()) return;
    const std::int64_t tokens = std::ssize(tokenizer_->encode_fitting({.first = prompt, .second = {}}, 0).ids);
    if (tokens >= longest_)
      throw Error(ErrorKind::usage, fmt::format("the prompt before each text has {} tokens and --max-length is {}: "
                                                "nothing of a text is left; expected a shorter prompt",
                                                tokens, longest_))
          .hint("--max-length takes more, where the model has the positions; --prompt \"\" puts nothing before");
  }

  void add(const std::string& text, const data::Place& place) {
    StopSignal::check("embedding");
    if (trim(text).empty()) throw Error(ErrorKind::data, place.text() + ": nothing to embed; got an empty text");
    const FittedEncoding made =
        tokenizer_->encode_fitting({.first = prompt_ + text, .second = {}}, static_cast<std::size_t>(longest_));
    if (made.ids.empty()) throw Error(ErrorKind::data, place.text() + ": nothing to embed; the text has no tokens");
    cut_ += made.cut > 0;
    HostDoc doc;
    doc.ids.assign(made.ids.begin(), made.ids.end());
    const std::int64_t highest = *std::max_element(doc.ids.begin(), doc.ids.end());
    if (highest >= model_->vocab_size())
      throw Error(ErrorKind::data, fmt::format("{}: token id {}; expected less than the model's vocabulary of {}",
                                               place.text(), highest, model_->vocab_size()))
          .hint("is this the model's tokenizer?");
    doc.targets.assign(doc.ids.size(), -100);
    waiting_.push_back({std::move(doc)});
    if (std::ssize(waiting_) == kBatchesSorted * flags_.batch_size) embed_waiting();
  }

  // Texts of like length are computed together, and given in their order.
  void embed_waiting() {
    if (waiting_.empty()) return;
    std::vector<std::int64_t> order(waiting_.size()), place(waiting_.size());
    std::iota(order.begin(), order.end(), 0);
    const auto length = [&](std::int64_t i) { return waiting_[static_cast<std::size_t>(i)][0].ids.size(); };
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return length(a) > length(b); });
    for (std::size_t i = 0; i < order.size(); ++i)
      place[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
    std::vector<Tensor> made;
    for (std::size_t begin = 0; begin < order.size(); begin += static_cast<std::size_t>(flags_.batch_size)) {
      StopSignal::check("embedding");
      std::vector<HostRow> rows;
      for (std::size_t i = begin; i < std::min(order.size(), begin + static_cast<std::size_t>(flags_.batch_size)); ++i)
        rows.push_back(std::move(waiting_[static_cast<std::size_t>(order[i])]));
      made.push_back(vectors(rows));
    }
    waiting_.clear();
    give(at::cat(made).index_select(0, host::tensor_of(place, {std::ssize(place)})).contiguous());
  }

  Tensor vectors(const std::vector<HostRow>& rows) const {
    const c10::NoGradGuard no_grad;
    const HostBatch host = pad(rows, training::pad_id_of(*tokenizer_, model_->vocab_size()));
    const Batch batch = to_batch(host).to(model_->device());
    Pass pass(batch);
    const Tensor whole_SD = nn::pooled(model_->forward(batch, pass), batch, pooling_);
    const Tensor unit_SD = !normalize_ ? whole_SD : nn::unit_rows(whole_SD, again_ ? dims_ : 0);
    const Tensor made_SD = unit_SD.narrow(1, 0, dims_);
    return host::read(made_SD.to(at::kFloat).contiguous());
  }

  void give(const Tensor& vector_SD) {
    const auto values = host::values<float>(vector_SD);
    if (!std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); }))
      throw nn::not_finite(*model_, "a vector");
    embedded_ += vector_SD.size(0);
    if (!flags_.out.empty()) return made_.push_back(vector_SD);
    const auto width = static_cast<std::size_t>(vector_SD.size(1));
    for (std::size_t at = 0; at < values.size(); at += width)
      std::cout << fmt::format("{{\"embedding\":[{}]}}\n", fmt::join(values.subspan(at, width), ","));
  }

  void finish(const TextsToClassify& texts) {
    embed_waiting();
    if (embedded_ == 0) throw Error(ErrorKind::data, (flags_.data.empty() ? "stdin" : flags_.data) + ": no texts");
    if (!flags_.out.empty()) {
      const Tensor all_SD = at::cat(made_).contiguous();
      io::replace_safetensors(
          Env::process(), flags_.out, {{kEmbeddings, "F32", all_SD.sizes().vec()}}, {{io::kHolds, kEmbeddings}},
          [&](const io::TensorSpec&) { return host::bytes(all_SD); }, ErrorKind::data);
      log::info("{}: {} of {} numbers", flags_.out, counted(all_SD.size(0), "vector"), all_SD.size(1));
    }
    if (cut_ > 0)
      log::warning("{} of {} were longer than {} tokens and were cut", cut_, counted(embedded_, "text"), longest_);
    if (!texts.unread().empty())
      log::info("fields that are not read: {}", list_names({texts.unread().begin(), texts.unread().end()}, 20));
  }

  Config flags_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::unique_ptr<Model> model_;
  nn::Pooling pooling_ = nn::Pooling::mean;
  bool normalize_ = true, again_ = false;  // again: what is left of a vector has length 1, too
  std::string prompt_;
  std::int64_t longest_ = 0, dims_ = 0, embedded_ = 0, cut_ = 0;
  std::vector<HostRow> waiting_;
  std::vector<Tensor> made_;
};

}  // namespace

void register_embed(Registries& hone) { hone.commands.add<Embed>("embed", "Vectors of texts, by an embedding model."); }

}  // namespace hone::cli
