// hone export: a folder as the Hugging Face hub wants it, of a run, a checkpoint, a model or an adapter.
#include <fmt/format.h>

#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/shell_words.h"
#include "base/signals.h"
#include "base/strings.h"
#include "cli/export_gguf.h"
#include "cli/export_source.h"
#include "cli/export_write.h"
#include "cli/output.h"
#include "cli/utf8.h"
#include "hone/command.h"
#include "hone/registry.h"
#include "io/folder_commit.h"

namespace hone::cli {
namespace {

class Export final : public Command {
 public:
  struct Config : CardFlags {
    using Base = CardFlags;
    std::string out, max_shard_size = "5GB", gguf;
    std::optional<std::string> checkpoint;
    bool merge = false, replace = false;
    ExportDtype dtype = ExportDtype::source;
    Quantization quantization;
    ExportGrid grid;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple_cat(
          std::tuple{
              field("out", &C::out, "Folder to make; with --gguf the file."),
              field("gguf", &C::gguf,
                    "One GGUF file instead, for llama.cpp, Ollama and LM Studio: f32, f16, bf16, q8_0, or the mixtures "
                    "of llama-quantize: q6_k, q5_k_m, q5_k_s, q5_1, q5_0, q4_k_m, q4_k_s, q4_1, q4_0, q3_k_l, q3_k_m, "
                    "q3_k_s, q2_k."),
              field("max_shard_size", &C::max_shard_size,
                    "Weights beyond this are cut into several files, as 500MB, 5GB or 5GiB."),
              field("checkpoint", &C::checkpoint,
                    "Of a run: latest (the default), best = the one that its evaluations found best, or a step."),
              field("merge", &C::merge, "Of an adapter: make one model of it and its base."),
              field("dtype", &C::dtype, "Type of the weights: source = each as it is stored."),
              field("quantization", &C::quantization,
                    "Weights of blocks in fewer bits, as transformers saves those of bitsandbytes."),
              field("grid", &C::grid, "Weights of blocks in fewer bits, as compressed-tensors saves them."),
              field("replace", &C::replace,
                    "A folder there that hone made, with nothing else in it, is moved to <folder>.old-k first.")},
          Base::fields());
    }
  };
  explicit Export(const Config& config) : flags_(config) {}

  Usage usage() const override {
    return {"RUN|CHECKPOINT|MODEL|ADAPTER --out FOLDER",
            {"hone export runs/a --out my-model --checkpoint best --repo me/my-model --private --license apache-2.0",
             "hone export runs/lora --out merged --merge --dtype bf16",
             "hone export my-model --out small --quantization nf4",
             "hone export runs/qat --out small --grid int4",
             "hone export runs/lora --merge --out chats-q4_k_m.gguf --gguf q4_k_m",
             "hone export runs/lora --out adapter --base-model org/base --create-pr --commit-message 'A new adapter'"},
            1,
            1};
  }

  int run(const Invocation& call) override {
    const StopSignal signals;
    if (flags_.out.empty()) throw Error(ErrorKind::usage, "--out: missing; expected a folder to make");
    const auto shard = parse_size(flags_.max_shard_size);
    if (!shard || *shard == 0)
      throw Error(ErrorKind::usage, "--max-shard-size: got " + hone::quoted(flags_.max_shard_size) +
                                        ", expected a size such as 500MB, 5GB or 5GiB");
    repository_name(flags_, flags_.out);  // before the work, not after
    check_texts();
    if (!flags_.gguf.empty()) return run_gguf(call);
    io::require_free(flags_.out, flags_.replace);
    const ExportSource source = export_source(call.positionals[0], flags_.checkpoint);
    check_card(source);
    const ExportHow how{flags_.out, flags_.replace, flags_.merge, flags_.dtype, *shard, flags_.quantization,
                        flags_.grid};
    const Exported made = write_export(source, how, flags_);
    for (const std::string& name : source.left_out)
      if (!flags_.merge) log::warning("{}: left out", (source.folder / name).string());
    if (made.facts.adapter && base_on_hub(made.facts, flags_).empty())
      log::warning("adapter_config.json names the folder {} as its base; --base-model names the one on the hub",
                   made.facts.base);
    call.json ? print_json(source, made) : print(source, made);
    return 0;
  }

 private:
  int run_gguf(const Invocation& call) const {
    GgufHow how{flags_.out, &gguf_type(flags_.gguf), flags_.replace, flags_.merge, ""};
    refuse_with_gguf();
    require_free_gguf(how);
    const ExportSource source = export_source(call.positionals[0], flags_.checkpoint);
    check_card(source);
    how.name = flags_.repo.empty() ? own_name(call.positionals[0]) : flags_.repo;
    const WrittenGguf made = write_gguf(source, how, flags_);
    call.json ? print_gguf_json(source, how, made) : print_gguf(source, how, made);
    return 0;
  }

  // What says how a folder's weights are kept.
  void refuse_with_gguf() const {
    const Config defaults;
    for (const auto& [flag, given] :
         {std::pair{"--dtype", flags_.dtype != ExportDtype::source},
          {"--quantization", flags_.quantization.type != QuantType::stored || !flags_.quantization.skip.empty()},
          {"--grid", flags_.grid.on()},
          {"--max-shard-size", flags_.max_shard_size != defaults.max_shard_size}})
      if (given)
        throw Error(ErrorKind::usage,
                    fmt::format("{}: not together with --gguf, which says the type of one file", flag));
  }

  // Of a run its folder's, also where one of its checkpoints is given.
  static std::string own_name(const std::string& where) {
    std::filesystem::path path = std::filesystem::absolute(where).lexically_normal();
    if (!std::filesystem::exists(path)) return where;  // org/name
    if (!path.has_filename()) path = path.parent_path();
    if (path.parent_path().filename() == "checkpoints") path = path.parent_path().parent_path();
    return path.filename().string();
  }

  void print_gguf(const ExportSource& source, const GgufHow& how, const WrittenGguf& made) const {
    std::vector<std::string> types;
    for (const auto& [type, count] : made.tensors) types.push_back(fmt::format("{} {}", count, type));
    std::cout << fmt::format("{}: model of {}, {} parameters in {} ({}), {}\n", flags_.out, source.folder.string(),
                             human_count(static_cast<double>(made.parameters)), how.type->name, join(types, ", "),
                             human_size(made.bytes));
    const std::string file = shell_word(flags_.out);
    std::cout << "to use it:\n  llama-cli -m " << file << (made.chat ? "\n" : " -no-cnv -p 'Once upon a time'\n")
              << "  ollama create NAME -f Modelfile, where Modelfile has the line: FROM "
              << std::filesystem::absolute(flags_.out).lexically_normal().string() << "\n";
    if (!flags_.repo.empty())
      std::cout << "to upload it (hf auth login first):\n  " << shell_line(upload_file()) << "\n";
  }

  std::vector<std::string> upload_file() const {
    std::vector<std::string> words = upload_command(flags_, flags_.out);
    words[4] = std::filesystem::path(flags_.out).filename().string();  // its name there
    std::erase_if(words, [](const std::string& word) { return word.starts_with("--exclude="); });
    return words;
  }

  void print_gguf_json(const ExportSource& source, const GgufHow& how, const WrittenGguf& made) const {
    nlohmann::ordered_json json = {{"file", flags_.out},           {"source", source.folder.string()},
                                   {"type", how.type->name},       {"parameters", made.parameters},
                                   {"size_bytes", made.bytes},     {"tensors", made.tensors}};
    if (!flags_.repo.empty()) json["upload"] = upload_file();
    if (source.facts.recipe) json["step"] = source.facts.step;
    write_json(json);
  }

  // README.md is UTF-8, and so is adapter_config.json.
  void check_texts() const {
    require_utf8(flags_.license, "--license", ErrorKind::usage);
    require_utf8(flags_.base_model, "--base-model", ErrorKind::usage);
    for (const auto& [flag, texts] :
         {std::pair{"--dataset", &flags_.dataset}, {"--language", &flags_.language}, {"--tag", &flags_.tag}})
      for (const std::string& text : *texts) require_utf8(text, flag, ErrorKind::usage);
  }

  // What a card of one's own would not say is not passed over.
  void check_card(const ExportSource& source) const {
    const bool asked = !flags_.license.empty() || !flags_.dataset.empty() || !flags_.language.empty() ||
                       !flags_.tag.empty() || (!flags_.base_model.empty() && !source.facts.adapter);
    if (source.has_card() && asked && !flags_.merge)
      throw Error(ErrorKind::usage, source.folder.string() +
                                        ": has a README.md of its own, which is kept; --license, --base-model, "
                                        "--dataset, --language and --tag are for a card that hone writes");
  }

  void print(const ExportSource& source, const Exported& made) const {
    std::uint64_t bytes = 0;
    for (const ExportedFile& file : made.files) bytes += file.bytes;
    const std::string kind = made.facts.adapter ? "adapter" : "model";
    std::cout << fmt::format("{}: {} of {}, {} parameters in {}, {} in {}\n", flags_.out, kind, source.folder.string(),
                             human_count(static_cast<double>(made.facts.parameters)), made.facts.dtype,
                             human_size(bytes), counted(std::ssize(made.files), "file"));
    for (const ExportedFile& file : made.files)
      std::cout << fmt::format("  {:<36} {}\n", file.name, human_size(file.bytes));
    std::cout << "checked: it opens, and every byte is as it was written. To upload it (hf auth login first):\n  "
              << shell_line(upload_command(flags_, flags_.out)) << "\n";
  }

  void print_json(const ExportSource& source, const Exported& made) const {
    nlohmann::ordered_json files = nlohmann::ordered_json::array();
    for (const ExportedFile& file : made.files) files.push_back({{"name", file.name}, {"size_bytes", file.bytes}});
    nlohmann::ordered_json json = {{"folder", flags_.out},          {"source", source.folder.string()},
                                   {"adapter", made.facts.adapter}, {"parameters", made.facts.parameters},
                                   {"dtype", made.facts.dtype},     {"files", files},
                                   {"left_out", source.left_out},   {"upload", upload_command(flags_, flags_.out)}};
    if (made.facts.recipe) json["step"] = made.facts.step;
    write_json(json);
  }

  Config flags_;
};

}  // namespace

void register_export(Registries& hone) {
  hone.commands.add<Export>("export", "Make a folder that is ready for the Hugging Face hub.");
}

}  // namespace hone::cli
