import Form from './form';

export default function Page() {
  return <main><h1>Trial</h1><Form /></main>;
}
