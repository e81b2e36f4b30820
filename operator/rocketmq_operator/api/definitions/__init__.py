"""The CustomResourceDefinitions: made from the models, with schemas as Kubernetes wants them."""
