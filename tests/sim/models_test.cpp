#include "sim/models.h"

#include <gtest/gtest.h>

#include <string>

namespace chaos::sim {
namespace {

TEST(ImageModels, HaveTheirKnownSizes) {
    std::string text;
    for (const Model& model : image_models())
        text += std::string(model.name) + " " + std::to_string((model.bytes() + 50'000) / 100'000) + "\n";
    EXPECT_EQ(text, "ResNet18 447\nResNet50 941\nResNet101 1701\nVGG11 5152\nVGG16 5372\nAlexNet 2282\n");
}

TEST(ImageModels, AreListedVariableByVariable) {
    EXPECT_EQ(image_models()[0].variables.size(), 62U);
    EXPECT_EQ(image_models()[4].variables.size(), 32U);
    EXPECT_EQ(image_models()[5].bytes(), 57'044'810U * 4);
}

}  // namespace
}  // namespace chaos::sim
