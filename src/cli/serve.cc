// hone serve: answers requests of OpenAI's API with a model.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>

#include "base/log.h"
#include "base/option_words.h"
#include "base/signals.h"
#include "base/strings.h"
#include "cli/chat_prompts.h"
#include "cli/model_place.h"
#include "cli/output.h"
#include "cli/record_flags.h"
#include "cli/served_scores.h"
#include "cli/served_vectors.h"
#include "data/choose_template.h"
#include "data/framed_places.h"
#include "data/pictures.h"
#include "hone/command.h"
#include "hone/generate.h"
#include "hone/hub.h"
#include "hone/registry.h"
#include "nn/kv_cache.h"
#include "serve/http.h"
#include "serve/service.h"
#include "text/chat/tool_calls.h"
#include "train/pictures.h"
#include "train/placement.h"

namespace hone::cli {
namespace {

constexpr double kToFinish = 30;  // seconds for the last answers to be read
constexpr const char* kKeyVariable = "HONE_API_KEY";

// In which the model's keys and values are.
at::ScalarType type_of(const Model& model) {
  std::optional<at::ScalarType> type;
  model.each_weight([&](const std::string&, const Weight& weight) {
    if (!type && weight.shape().size() == 2) type = weight.use().scalar_type();
  });
  return type.value_or(at::kFloat);
}

class Serve final : public Command {
 public:
  struct Config : ModelFlags {
    using Base = ModelFlags;
    std::optional<std::string> api_key = {};
    std::optional<bool> embeddings;
    std::string host = "127.0.0.1", name, allow_origin, tokenizer, adapter, chat_template, chat_template_kwargs;
    std::int64_t port = 8080, batch_size = 16, queue = 256;
    std::optional<std::int64_t> max_length, prompt_cache;
    bool log_requests = true;
    static constexpr auto fields() {
      using C = Config;
      constexpr config::Range port_range{.low = 0, .high = 65535};
      return std::tuple_cat(
          std::tuple{
              field("host", &C::host,
                    "Address to listen at; 0.0.0.0 is all of this machine's, for others to reach it."),
              field("port", &C::port, "Port to listen at; 0 = one that is free.", port_range),
              field("name", &C::name, "What requests call the model; default: the last part of its path."),
              field("api_key", &C::api_key,
                    "Requests must come with this key (Authorization: Bearer KEY); default: the environment's "
                    "HONE_API_KEY, which other users of the machine do not see, else none is asked for."),
              field("allow_origin", &C::allow_origin,
                    "Pages of this origin may ask from a browser, as http://localhost:3000; * = of any."),
              field("embeddings", &C::embeddings,
                    "Give vectors of texts (/v1/embeddings) instead of answers; default: for folders of the "
                    "sentence-transformers package, and what objective embedding has trained."),
              field("batch_size", &C::batch_size,
                    "Answers that are made at the same time; of vectors and scores texts per forward pass.",
                    config::Range{.low = 1, .high = 4096}),
              field("queue", &C::queue, "Requests that may wait for room; further ones are refused (503).",
                    at_least(0)),
              field(
                  "max_length", &C::max_length,
                  "Tokens of a prompt and its answer together at most, and of a text or a pair of texts where vectors "
                  "or scores are given; default: as many as the model was made for, or fewer where there is less "
                  "memory for so many answers; of texts and pairs as the folder says.",
                  at_least(2)),
              field("prompt_cache", &C::prompt_cache,
                    "Memory, in MB, for what texts that were answered have left: prompts that begin as they do, such "
                    "as a chat's next turn, are read from there on; 0 = none; default: an eighth of what is there.",
                    at_least(0)),
              field("log_requests", &C::log_requests,
                    "Write a line for each request to stderr: when, from where, path, status, milliseconds, tokens; "
                    "nothing of its texts."),
              field("tokenizer", &C::tokenizer, "Folder or tokenizer.json; default: the model's own."),
              adapter_flag<C>(),
              field("chat_template", &C::chat_template,
                    "A chat template instead of the tokenizer's own: a file, a text, or a name such as chatml."),
              field(
                  "chat_template_kwargs", &C::chat_template_kwargs,
                  "Further variables of the template as a JSON object, as in {\"enable_thinking\": false}; a request's "
                  "own win.")},
          Base::fields());
    }
  };
  explicit Serve(const Config& config) : flags_(config) {}

  Usage usage() const override {
    return {"MODEL",
            {"hone serve my-chat-model", "hone serve runs/lora --port 9000 --batch-size 32",
             "hone serve runs/embedding", "hone serve my-cross-encoder",
             "curl http://127.0.0.1:8080/v1/chat/completions -d '{\"messages\": [{\"role\": \"user\", \"content\": "
             "\"Hi\"}]}'"},
            1,
            1};
  }

  int run(const Invocation& call) override {
    const WordsOfFlags words;
    const ModelPlace place = model_place(call.positionals[0], flags_.adapter);
    if (!flags_.embeddings) flags_.embeddings = hub::read_sentence_folder(embedding_folder(place)).has_value();
    if (*flags_.embeddings) return give_vectors(call, place);
    const auto model = load_model(place, flags_);
    if (gives_scores(*model)) return give_scores(call, place, *model);
    refuse_labels(*model);
    const std::string own = tokenizer_folder(place).string();
    const auto tokenizer = data::with_chat_template(load_tokenizer(flags_.tokenizer.empty() ? own : flags_.tokenizer),
                                                    flags_.chat_template, "--chat-template");
    warn_about_tokenizer(place, flags_.tokenizer, *tokenizer);
    require_causal_lm(*model, "hone serve");
    Generator checked(*model, tokenizer);  // that it has a head, and a tokenizer
    std::optional<ChatPrompts> chat;
    if (text::ChatTemplate::of(*tokenizer))
      chat.emplace(tokenizer, "", flags_.chat_template_kwargs, model->pictures() != nullptr);
    else if (!flags_.chat_template_kwargs.empty())
      throw Error(ErrorKind::usage, "--chat-template-kwargs: the tokenizer has no chat template");
    serve::ServiceOptions options = options_of(*model);
    serve::Served served = served_of(call, place, *model, tokenizer, chat, options);
    serve::Service service(served, std::move(options));
    return serve_until_stopped(service, [&](int port) { tell(call, served, port, chat.has_value()); });
  }

 private:
  static constexpr const char* kFinishing = "hone: finishing the answers that are begun; once more: at once";

  serve::HttpOptions http_options() const {
    return {.host = flags_.host, .port = static_cast<int>(flags_.port), .allow_origin = flags_.allow_origin};
  }

  // tell: says at which port it listens.
  template <class Service, class Tell>
  int serve_until_stopped(Service& service, const Tell& tell) const {
    const StopSignal signals(kFinishing);
    serve::HttpServer server(
        http_options(),
        [&](const serve::HttpRequest& request, const serve::Reply& reply) { service.handle(request, reply); },
        [&](const serve::HttpDone& done) { service.done(done); });
    tell(server.port());
    service.run([] { return StopSignal::stop_requested(); });
    server.finish(kToFinish);
    return 0;
  }

  // Of what does not continue texts.
  void refuse_flags_of_answers(const char* instead, const std::string& hint = "") const {
    for (const auto& [flag, is_given] : {std::pair{"--chat-template", !flags_.chat_template.empty()},
                                         std::pair{"--chat-template-kwargs", !flags_.chat_template_kwargs.empty()},
                                         std::pair{"--prompt-cache", flags_.prompt_cache.has_value()}})
      if (is_given) {
        Error error(ErrorKind::usage, fmt::format("{}: not of a model that gives {}", flag, instead));
        if (hint.empty()) throw error;
        throw std::move(error).hint(hint);
      }
  }

  int give_vectors(const Invocation& call, const ModelPlace& place) {
    refuse_flags_of_answers("vectors of texts", "--embeddings=false serves a language model's answers");
    const Embedder embedder(place, flags_, {.tokenizer = flags_.tokenizer, .max_length = flags_.max_length});
    if (embedder.is_sparse())
      throw Error(ErrorKind::usage, fmt::format("{}: a sparse encoder; hone serve gives dense vectors",
                                                embedding_folder(place).string()))
          .hint("hone embed gives sparse ones");
    if (embedder.gives_tokens())
      throw Error(ErrorKind::usage, fmt::format("{}: its texts have a vector of each token; hone serve gives one of "
                                                "a text",
                                                embedding_folder(place).string()))
          .hint("hone embed gives those of tokens");
    serve::EmbeddingService service(
        served_vectors(embedder, front_options(call), flags_.batch_size, flags_.queue));
    return serve_until_stopped(service, [&](int port) { tell_vectors(call, served_name(call), embedder, port); });
  }

  // A cross-encoder, or a model of rewards: one number for a text, or two.
  static bool gives_scores(const Model& model) {
    const Classifier* classifier = model.classifier();
    return classifier && !classifier->of_tokens() && classifier->labels().size() == 1;
  }

  static void refuse_labels(const Model& model) {
    const Classifier* classifier = model.classifier();
    if (!classifier || model.causal_lm()) return;
    const std::string given = classifier->answers_questions() ? "one that answers questions"
                              : classifier->of_tokens()       ? "one that gives words or steps labels"
                                                              : "one of " +
                                                                    counted(std::ssize(classifier->labels()), "label");
    throw Error(ErrorKind::config, fmt::format("hone serve: of a classification head scores are served; "
                                               "got {}, expected one for a score",
                                               given))
        .hint("hone classify gives texts the labels of such a model");
  }

  int give_scores(const Invocation& call, const ModelPlace& place, const Model& model) const {
    refuse_flags_of_answers("scores");
    const auto tokenizer = tokenizer_of(place, flags_.tokenizer);
    serve::Scores scores = served_scores(model, tokenizer, place, front_options(call),
                                         {flags_.max_length, flags_.batch_size, flags_.queue});
    const std::int64_t max_length = scores.front.max_length;
    serve::RerankService service(std::move(scores));
    return serve_until_stopped(service, [&](int port) {
      if (call.json)
        write_json({{"url", url_of(port)},
                    {"model", served_name(call)},
                    {"batch_size", flags_.batch_size},
                    {"max_length", max_length},
                    {"scores", true}});
      else
        std::cout << fmt::format("{} at {}/v1/rerank: scores of pairs of up to {} tokens\n", served_name(call),
                                 url_of(port), max_length);
      std::cout.flush();
    });
  }

  serve::FrontOptions front_options(const Invocation& call) const {
    return {.name = served_name(call), .api_key = api_key(), .log_requests = flags_.log_requests};
  }

  std::string url_of(int port) const {
    const bool is_v6 = flags_.host.find(':') != std::string::npos;
    return fmt::format("http://{}:{}", is_v6 ? "[" + flags_.host + "]" : flags_.host, port);
  }

  void tell_vectors(const Invocation& call, const std::string& name, const Embedder& embedder, int port) const {
    if (call.json)
      write_json({{"url", url_of(port)},
                  {"model", name},
                  {"batch_size", flags_.batch_size},
                  {"max_length", embedder.max_length()},
                  {"dimensions", embedder.width()}});
    else
      std::cout << fmt::format("{} at {}/v1/embeddings: vectors of {} numbers, of texts of up to {} tokens\n", name,
                               url_of(port), embedder.width(), embedder.max_length());
    std::cout.flush();
  }

  serve::ServiceOptions options_of(const Model& model) const {
    serve::ServiceOptions options{.rows = flags_.batch_size, .queue = flags_.queue, .api_key = api_key()};
    options.log_requests = flags_.log_requests;
    // A cache doubles where it has to grow, and is there twice while it does.
    const auto there = static_cast<std::int64_t>(training::memory_there(model.device()));
    options.most_cache_bytes = there / 3;
    options.kept_bytes = flags_.prompt_cache ? *flags_.prompt_cache * 1'000'000 : there / 8;
    options.cache_bytes = [spec = model.causal_lm()->cache_spec(), type = type_of(model)](std::int64_t rows,
                                                                                          std::int64_t tokens) {
      return nn::cache_bytes(spec, type, rows, tokens);
    };
    return options;
  }

  std::string api_key() const {
    if (flags_.api_key && flags_.api_key->empty())
      throw Error(ErrorKind::usage, "--api-key: got an empty key; leave it out to serve without one");
    if (flags_.api_key) return *flags_.api_key;
    const char* key = std::getenv(kKeyVariable);
    if (key && !*key)
      throw Error(ErrorKind::usage, fmt::format("{}: it is empty; unset it to serve without a key", kKeyVariable));
    return key ? key : "";
  }

  // As long as all answers at a time may be, unless it was said.
  std::int64_t max_length(const Model& model, const serve::ServiceOptions& options) const {
    if (flags_.max_length) {
      if (model.positions_are_learned() && *flags_.max_length > model.max_positions())
        throw Error(ErrorKind::usage, fmt::format("--max-length: got {}, expected at most {}, the positions that this "
                                                  "model has learned",
                                                  *flags_.max_length, model.max_positions()));
      if (*flags_.max_length > model.max_positions())
        log::warning("--max-length: got {}, but the model was made for {} tokens", *flags_.max_length,
                     model.max_positions());
      return *flags_.max_length;
    }
    std::int64_t length = std::min<std::int64_t>(model.max_positions(), std::int64_t{1} << 20);
    while (length > 512 && options.cache_bytes(options.rows, length) > options.most_cache_bytes) length /= 2;
    return length;
  }

  serve::Served served_of(const Invocation& call, const ModelPlace& place, const Model& model,
                          const std::shared_ptr<const Tokenizer>& tokenizer, const std::optional<ChatPrompts>& chat,
                          const serve::ServiceOptions& options) const {
    serve::Served served{
        .name = served_name(call), .model = &model, .tokenizer = tokenizer};
    served.defaults = generation_defaults(generation_folder(place).string(), model.vocab_size());
    if (served.defaults.num_beams > 1)
      throw Error(ErrorKind::config,
                  fmt::format("{}: generation_config.json: num_beams: got {}, expected 1: answers that join others are "
                              "made without beams",
                              call.positionals[0], served.defaults.num_beams));
    // Clients of this API mean 1 where they say nothing, and a folder that says nothing is not one that says 0.
    if (served.defaults.temperature == 0) served.defaults.temperature = 1;
    served.chat_defaults = served.defaults;
    served.max_length = max_length(model, options), served.most_answers = options.rows;
    if (!chat) return served;
    served.chat_text = [&chat](const nlohmann::ordered_json& row) {
      std::vector<PictureFile> pictures;
      return chat->text_of(chat->of_row(row, {kRequest}, pictures));
    };
    served.whole_chat_text = [&chat](const nlohmann::ordered_json& row) {
      return chat->whole_text_of(row, {kRequest});
    };
    if (const auto reader = training::pictures_of(model, place.folder)) {
      served.chat_tokenizer = data::tokenizer_of_places(*tokenizer, reader.get());
      served.place_pictures = [&chat, reader, tokenizer](const nlohmann::ordered_json& row,
                                                         std::vector<std::int32_t>& ids) {
        return placed(*chat, row, {reader, tokenizer}, ids);
      };
    }
    served.template_reads = [own = text::ChatTemplate::of(*tokenizer)](const std::string& name) {
      return own->mentions(name);
    };
    served.finds_tool_calls = text::writes_tool_calls(*text::ChatTemplate::of(*tokenizer));
    chat->add_turn_end(served.chat_defaults);
    return served;
  }

  // Nobody reads this machine's files by a request.
  struct Reads {
    std::shared_ptr<const PictureReader> pictures;
    std::shared_ptr<const Tokenizer> tokenizer;
  };
  static std::vector<DocPicture> placed(const ChatPrompts& chat, const nlohmann::ordered_json& row, const Reads& reads,
                                        std::vector<std::int32_t>& ids) {
    std::vector<PictureFile> pictures;
    chat.of_row(row, {kRequest}, pictures);
    for (const PictureFile& picture : pictures)
      if (!picture.path.empty())
        throw Error(ErrorKind::data, "a picture by a path; expected its content, as data:image/png;base64,…");
    return data::doc_pictures(data::widen_places({ids}, pictures, {*reads.pictures, *reads.tokenizer}, kRequest),
                              reads.pictures, kRequest);
  }

  inline static const std::string kRequest = "request";

  std::string served_name(const Invocation& call) const {
    if (!flags_.name.empty()) return flags_.name;
    return std::filesystem::weakly_canonical(call.positionals[0]).filename().string();
  }

  void tell(const Invocation& call, const serve::Served& served, int port, bool has_chat) const {
    if (call.json)
      write_json({{"url", url_of(port)},
                  {"model", served.name},
                  {"batch_size", flags_.batch_size},
                  {"max_length", served.max_length},
                  {"chat", has_chat}});
    else
      std::cout << fmt::format("{} at {}/v1{}: {} at a time, of up to {} tokens with their prompts\n", served.name,
                               url_of(port),
                               has_chat ? "" : " (no chat template: /v1/completions only)",
                               counted(flags_.batch_size, "answer"), served.max_length);
    std::cout.flush();
  }

  Config flags_;
};

}  // namespace

void register_serve(Registries& r) { r.commands.add<Serve>("serve", "Answer requests of OpenAI's API with a model."); }

}  // namespace hone::cli
