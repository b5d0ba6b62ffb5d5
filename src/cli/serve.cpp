#include "cli/chat_model.h"
#include "cli/commands.h"
#include "cli/serving.h"

namespace chaos::cli {

Result<void> serve(const ServeOptions& options) {
    if (options.with_others()) return serve_together(options);
    if (options.model.empty()) return Error{"name a model: a folder of Hugging Face's, or a GGUF file"};
    CHAOS_TRY(auto file, infer::ModelFile::open(options.model));
    CHAOS_TRY(const OpenService open, open_service(options));
    Serving serving(*open.service);
    announce_loading(model_name(options.model));
    CHAOS_TRY(const auto model, ChatModel::load(std::move(file), options.model, options.compute));
    open.service->set_generator(model->generator());
    // While the model is being loaded, Ctrl-C ends the program as usual.
    open.service->stop_on_signals();
    announce(open, model->generator().facts());
    serving.wait();
    return {};
}

}  // namespace chaos::cli
